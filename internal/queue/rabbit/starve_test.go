package rabbit

import (
	"errors"
	"testing"
)

// TestSupplyLook has a consumer looked at until it is to be made anew.
func TestSupplyLook(t *testing.T) {
	t.Parallel()
	const never = 0
	ready := func(n int) func() (int, error) { return func() (int, error) { return n, nil } }
	for _, tt := range []struct {
		name  string
		begin func(*supply)
		held  int // of a prefetch of 4
		ready func() (int, error)
		want  int // looks
	}{
		{"messages are ready", func(*supply) {}, 3, ready(1), 2},
		{"something has just come", func(s *supply) { s.deliver() }, 3, ready(1), 3},
		{"the queue is empty", func(*supply) {}, 0, ready(0), never},
		{"and was not", func(s *supply) { s.deliver() }, 0, ready(0), 61},
		{"and something is held", func(s *supply) { s.deliver() }, 1, ready(0), never},
		{"the consumer is full", func(*supply) {}, 4, ready(9), never},
		{"the broker does not answer", func(*supply) {}, 0, func() (int, error) { return 0, errors.New("no") }, never},
		{"it was made anew before", func(s *supply) { s.anew = 1 }, 0, ready(1), 4},
		{"and often", func(s *supply) { s.anew = 9 }, 0, ready(1), 64},
		{"single-active, never active", func(s *supply) { s.single = true }, 0, ready(1), never},
		{"single-active, active", func(s *supply) { s.single = true; s.deliver() }, 0, ready(1), 3},
		{"single-active, active and idle", func(s *supply) { s.single = true; s.deliver() }, 0, ready(0), never},
		{"single-active, active before the connection was lost", func(s *supply) { s.single = true; s.deliver(); s.reconnect() }, 0, ready(1), never},
		{"single-active, made anew in vain", func(s *supply) { s.single, s.active, s.anew = true, true, 2 }, 0, ready(1), never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s supply
			tt.begin(&s)
			got := never
			for i := 1; i <= 100 && got == never; i++ {
				if s.look(tt.held, 4, tt.ready) != nil {
					got = i
				}
			}
			if got != tt.want {
				t.Errorf("look() first returns an error at look %d, want %d", got, tt.want)
			}
		})
	}
}
