package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/backoff"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
)

// errOperator is why a Step cannot be made on a running deployment.
var errOperator = errors.New("a running deployment's dispatchers can only be started and stopped by its operator")

// Deployable names everything in the plan that cannot be done to a deployment
// that runs already: another strategy than its own, other settings of its
// dispatchers or its platform, dispatchers that come and go. To change the
// platform's limit is allowed. Every step is played once on a system on which
// nothing happens. Run checks this too. A caller with several plans
// should check all before the first.
func (p Plan) Deployable(ctx context.Context, strategy string) error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if strategy != report.Own {
		refuse("strategy %q: a running deployment keeps its own", strategy)
	}
	if p.Algorithm != "" {
		refuse("limiter %q: a running deployment's platform keeps its own", p.Algorithm)
	}
	if p.Options != (fleet.Options{}) {
		refuse("latency target, message TTL and most calls in flight: a running deployment's dispatchers keep their own")
	}
	for _, s := range p.Streams {
		if s.Sickness != nil {
			refuse("pages or people that are sick: a running deployment's platform answers as it does")
		}
		if s.Audio {
			refuse("audio: a simulated user has no voice")
		}
	}
	for _, s := range p.Script {
		if err := s.Do(ctx, &Controls{rehearsal: true}); err != nil {
			refuse("step %q: %w", s.Name, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("not on a running deployment: %w", err)
	}
	return nil
}

// checkRunning reads what a running system's ledger holds already, and compares
// its platform with what the plan takes it to be. What a flag could say must be
// as the flags say, because the report repeats them; the rest is noted.
func (t *trial) checkRunning(ctx context.Context) (err error) {
	if t.earlier, err = t.judge.Totals(ctx); err != nil {
		return err
	}
	if t.earlier.Pending > 0 {
		return fmt.Errorf("the platform still awaits %d messages: nothing else may use the system during a trial", t.earlier.Pending)
	}
	settings, err := t.judge.Settings(ctx)
	if err != nil {
		return err
	}
	assumed, err := t.Plan.platform()
	if err != nil {
		return err
	}
	found := make(map[string]string)
	flatten(found, "", settings)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		value := found[name]
		want, known := assumed[name]
		if !known {
			want = "nothing"
		}
		switch {
		case slices.Contains(ignored, name) || strings.HasPrefix(name, "media."):
		case value == want || !known && (flags[name] != "" || slices.Contains(nothing, value)):
		case flags[name] != "":
			faults = append(faults, fmt.Errorf("its %s is %s, not %s: say so with -%s", name, value, want, flags[name]))
		default:
			t.note("the platform's %s is %s, the scenario assumes %s", name, value, want)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("the platform is not as the run assumes: %w", err)
	}
	return t.checkClock(ctx)
}

// flags are the settings that a flag names.
var flags = map[string]string{
	"text.per_second": "limit", "text.algorithm": "algorithm", "text.count_refused": "count-refused",
}

// ignored are settings that no figure depends on: where the platform's
// windows begin is not known, and the rest is read only where something else is
// set, which is noted itself. Media is not sent.
var ignored = []string{"text.phase", "audience", "block.min_calls", "block.window", "block.for", "faults.timeout_after", "faults.slow_body_by"}

// nothing are the values of settings that do nothing.
var nothing = []string{"0", "0s", "false", "none", "null", ""}

// platform is what the plan takes the platform's settings to be.
func (p Plan) platform() (map[string]string, error) {
	b, err := json.Marshal(p.Platform)
	if err != nil {
		return nil, fmt.Errorf("encode the plan's platform: %w", err)
	}
	var settings map[string]any
	if err := json.Unmarshal(b, &settings); err != nil {
		return nil, fmt.Errorf("decode the plan's platform: %w", err)
	}
	flat := make(map[string]string)
	flatten(flat, "", settings)
	flatten(flat, "text.per_second", p.Limit)
	return flat, nil
}

// flatten lists the values in a JSON object by their paths.
func flatten(flat map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			flatten(flat, strings.TrimPrefix(path+"."+name, "."), inner)
		}
	case []any:
		for i, inner := range v {
			flatten(flat, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	case float64:
		flat[path] = strconv.FormatFloat(v, 'f', -1, 64) // as a flag reads it
	case nil:
		flat[path] = "null"
	default:
		flat[path] = fmt.Sprint(v)
	}
}

// apart is how far the platform's clock may be from ours: a latency is the
// difference of the two, and 20 ms are half of a call's.
const apart = 20 * time.Millisecond

// checkClock notes a platform whose clock is another. Of a few questions the
// one that was answered fastest says most: what it took, it cannot be wrong by.
func (t *trial) checkClock(ctx context.Context) error {
	var offset time.Duration
	least := time.Duration(-1)
	for range 5 {
		asked := time.Now()
		now, err := t.judge.Now(ctx)
		if err != nil || now.IsZero() {
			return err
		}
		if took := time.Since(asked); least < 0 || took < least {
			least, offset = took, now.Sub(asked.Add(took/2))
		}
	}
	if offset.Abs()-least/2 > apart {
		t.note("the platform's clock is %v apart from the load generator's: every latency is wrong by it", offset.Round(time.Millisecond))
	}
	return nil
}

// putBack sets a running deployment's platform to the limit that it had before
// the trial, if the trial has changed it.
func (t *trial) putBack(ctx context.Context) error {
	if !t.Running || t.controls == nil || !t.controls.changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackFor)
	defer cancel()
	for {
		err := t.controls.SetLimit(ctx, t.Plan.Limit)
		if err == nil {
			return nil
		}
		if !backoff.Sleep(ctx, time.Second) {
			return fmt.Errorf("put the platform's limit back to %g a second, which is left to you: %w", t.Plan.Limit, err)
		}
	}
}

// putBackFor is how long that is tried.
const putBackFor = 30 * time.Second
