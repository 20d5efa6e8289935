package tracing

import (
	"fmt"
	"slices"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Sampler is the name of a sampler, as in OTEL_TRACES_SAMPLER. The zero value is
// ParentAlwaysOn, the specification's default.
type Sampler string

// The samplers. Those with a parent differ from the others only for spans that go on
// with a trace.
const (
	AlwaysOn       Sampler = "always_on"
	AlwaysOff      Sampler = "always_off"
	Ratio          Sampler = "traceidratio"
	ParentAlwaysOn Sampler = "parentbased_always_on"
	ParentOff      Sampler = "parentbased_always_off"
	ParentRatio    Sampler = "parentbased_traceidratio"
)

var samplers = []Sampler{AlwaysOn, AlwaysOff, Ratio, ParentAlwaysOn, ParentOff, ParentRatio}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sampler) UnmarshalText(b []byte) error {
	if !slices.Contains(samplers, Sampler(b)) {
		return fmt.Errorf("unknown sampler %.40q", b)
	}
	*s = Sampler(b)
	return nil
}

// Describe lists the samplers.
func (Sampler) Describe() string {
	names := make([]string, len(samplers))
	for i, s := range samplers {
		names[i] = string(s)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (s Sampler) sampler(ratio float64) (sdktrace.Sampler, error) {
	switch s {
	case AlwaysOn:
		return sdktrace.AlwaysSample(), nil
	case AlwaysOff:
		return sdktrace.NeverSample(), nil
	case Ratio:
		return sdktrace.TraceIDRatioBased(ratio), nil
	case ParentAlwaysOn, "":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case ParentOff:
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case ParentRatio:
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("unknown sampler %.40q", string(s))
}
