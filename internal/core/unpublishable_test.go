package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnpublishable checks that events whose copies no broker takes hold up no other.
func TestUnpublishable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.start(t)
		r.say(t, text("12345678901234567890", strings.Repeat("m", 236), "hello"))
		r.say(t, text("2", "b", "hello"))
		for i := range 8 {
			r.say(t, on(fmt.Sprint("sick", i), text("12345678901234567890", strings.Repeat("m", 236), "hello")))
		}
		r.say(t, on("free", text("1", "a", "hello")))
		time.Sleep(10 * time.Minute)
		if got := r.sent(t); len(got) < 2 {
			t.Errorf("copies behind an event that cannot be published = %q", got)
		}
		if dead := len(take(t, r.broker, r.broker.Topology().Dead())); dead != 9 {
			t.Errorf("dead letters = %d, want all 9", dead)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}
