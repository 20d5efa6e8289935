package cases

import (
	"slices"
	"testing"

	"chatclub/loadtest/report"
)

// Each part of each case has a bound of order, which is 0 where no dispatcher is killed.
func TestOrderIsBound(t *testing.T) {
	t.Parallel()
	for _, c := range All() {
		for _, p := range c.Parts {
			killed := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Do == Kill })
			i := slices.IndexFunc(p.Must(), func(b report.Bound) bool { return b.Figure == report.Overtaken && !b.Least && b.Times == 0 })
			if i < 0 {
				t.Errorf("%s %s has no bound of order", c.Name, p.Label)
			} else if most := p.Must()[i].Value; (most > 0) != killed {
				t.Errorf("%s %s may have %g copies overtaken, and a dispatcher is killed: %t", c.Name, p.Label, most, killed)
			}
		}
	}
}
