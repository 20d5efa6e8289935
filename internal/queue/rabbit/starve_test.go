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
		room  bool
		ready func() (int, error)
		want  int // looks
	}{
		{"messages are ready", func(*supply) {}, true, ready(1), 2},
		{"something has just come", func(s *supply) { s.deliver() }, true, ready(1), 3},
		{"the queue is empty", func(*supply) {}, true, ready(0), never},
		{"the consumer is full", func(*supply) {}, false, ready(9), never},
		{"the broker does not answer", func(*supply) {}, true, func() (int, error) { return 0, errors.New("no") }, never},
		{"it was made anew before", func(s *supply) { s.anew = 1 }, true, ready(1), 4},
		{"and often", func(s *supply) { s.anew = 9 }, true, ready(1), 64},
		{"single-active, never active", func(s *supply) { s.single = true }, true, ready(1), never},
		{"single-active, active", func(s *supply) { s.single = true; s.deliver() }, true, ready(1), 3},
		{"single-active, active before the connection was lost", func(s *supply) { s.single = true; s.deliver(); s.reconnect() }, true, ready(1), never},
		{"single-active, its queue was lost", func(s *supply) { s.single = true; s.lose() }, true, ready(1), 2},
		{"its queue was lost, and is empty", func(s *supply) { s.lose() }, true, ready(0), 2},
		{"likewise, and made anew", func(s *supply) { s.lose(); s.anew = 1 }, true, ready(0), 4},
		{"likewise, twice", func(s *supply) { s.lose(); s.anew = 2 }, true, ready(0), never},
		{"likewise, and something came", func(s *supply) { s.lose(); s.deliver() }, true, ready(0), never},
		{"single-active, made anew in vain", func(s *supply) { s.single, s.active, s.anew = true, true, 2 }, true, ready(1), never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s supply
			tt.begin(&s)
			got := never
			for i := 1; i <= 100 && got == never; i++ {
				if s.look(tt.room, tt.ready) != nil {
					got = i
				}
			}
			if got != tt.want {
				t.Errorf("look() first returns an error at look %d, want %d", got, tt.want)
			}
		})
	}
}
