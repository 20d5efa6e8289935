package trial_test

import (
	"cmp"
	"flag"
	"testing"

	"chatclub/loadtest/scenario"
)

// All that a scenario does and a running deployment does not allow is known
// before anything is sent.
func TestWhichScenariosRunOnADeployment(t *testing.T) {
	t.Parallel()
	refused := map[string]bool{"scale": true, "rolling-restart": true, "voice": true, "sick-member": true, "sick-page": true, "pushwoosh-sendrate": true, "ceiling": true, "mindbox-latency": true, "aws-overload": true}
	for _, s := range scenario.All() {
		_, build := s.Flags(flag.NewFlagSet(s.Name, flag.ContinueOnError))
		set, err := build()
		if err != nil {
			t.Fatal(err)
		}
		var fault error
		for _, p := range set.Parts {
			fault = cmp.Or(fault, p.Plan.Deployable(t.Context(), cmp.Or(p.Strategy, scenario.Own)))
		}
		if (fault != nil) != refused[s.Name] {
			t.Errorf("%s on a deployment = %v, want refused: %v", s.Name, fault, refused[s.Name])
		}
	}
}
