package stall

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVerdict(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	quiet := slices.Repeat([]time.Duration{11 * ms}, 100)
	for _, row := range []struct {
		name   string
		sleeps []time.Duration
		want   string
	}{
		{"nothing seen", nil, "the machine was not starved: this process was late by up to 0s, and for 0 % of 0s"},
		{"a quiet machine", quiet, "the machine was not starved: this process was late by up to 1ms, and for 9 % of 1.1s"},
		{"one long delay", slices.Concat(quiet, []time.Duration{510 * ms}), "the machine was STARVED, so a failed time bound shows nothing: this process was late by up to 500ms, and for 37 % of 1.61s"},
		{"just not long", slices.Concat(quiet, []time.Duration{509 * ms}), "the machine was not starved: this process was late by up to 499ms, and for 37 % of 1.609s"},
		{"many short delays", []time.Duration{30 * ms, 30 * ms}, "the machine was STARVED, so a failed time bound shows nothing: this process was late by up to 20ms, and for 67 % of 60ms"},
	} {
		m := &Meter{}
		for _, d := range row.sleeps {
			m.note(d)
		}
		if got := m.String(); got != row.want {
			t.Errorf("%s: String() =\n%s, want\n%s", row.name, got, row.want)
		}
	}
}

// TestRuns checks that a meter looks at all, and ends.
func TestRuns(t *testing.T) {
	t.Parallel()
	m := Start()
	for seen := time.Duration(0); seen == 0; time.Sleep(every) {
		m.mu.Lock()
		seen = m.seen
		m.mu.Unlock()
	}
	m.Stop()
}
