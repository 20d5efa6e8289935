package dispatch

import (
	"testing"
	"time"

	"chatclub/internal/queue"
)

// A broadcast that went round, and of which core could only be told later, is counted as
// that: the engine goes on.
func TestBroadcastGoesRoundWhileCoreTakesNothing(t *testing.T) {
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.know("page0")
		r.limits = nil
		sick := true
		r.only().link.with(func(l *link) {
			l.refuse = func(_, q string) (err error) {
				r.with(func() {
					if sick && r.top.IsInbound(q) {
						err = queue.ErrRefused
					}
				})
				return err
			}
		})
		r.text("page0", guests("g", 1500)...)
		r.broadcast("page0", time.Hour, guests("b", 10)...)
		r.sleep(2 * time.Second)
		r.with(func() { sick = false })
		r.sleep(time.Minute)
		r.checkSentOnce()
	})
}
