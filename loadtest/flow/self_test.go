package flow

import (
	"testing"
	"testing/synctest"
	"time"
)

// The tables are worth no more than what makes them: these are tests of it.

// A call that carries several messages is one call.
func TestRecordOfJoinedMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRecord()
		first, second := b.enter(1, 0), b.enter(1, 0)
		time.Sleep(100 * time.Millisecond)
		b.accept(first + " " + second)
		time.Sleep(50 * time.Millisecond)
		b.call(first+" "+second, 80*time.Millisecond, true)
		if a := b.accepted(1, window{0, time.Second}); a != 1 {
			t.Errorf("accepted calls = %d, want 1", a)
		}
		if got := b.waits(window{0, time.Second}, everybody); len(got) != 2 || got[1] != 80*time.Millisecond {
			t.Errorf("waits = %v, want 80 ms twice", got)
		}
		if got := b.delays(window{0, time.Second}, everybody); len(got) != 2 || got[1] != 150*time.Millisecond {
			t.Errorf("delays = %v, want 150 ms twice", got)
		}
		if share, most, all := b.delivered(everybody); share != 1 || most != 1 || all != 2 {
			t.Errorf("delivered = %v, %d, %d, want all with one call each", share, most, all)
		}
	})
}

// Silence is the longest gap, and a page is back after its last dip.
func TestSilenceAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRecord()
		for i := range 100 { // 10/s for 10 s, but for two seconds from 3 s on
			time.Sleep(100 * time.Millisecond)
			if i < 30 || i >= 50 {
				b.accept(b.enter(1, i))
			}
		}
		// The last second with less than 9 of 10 ends when 9 of its cells are full again.
		if got, want := b.back(1, 2*time.Second, 9, 7*time.Second), 3900*time.Millisecond; got != want {
			t.Errorf("back = %v, want %v", got, want)
		}
		if got, want := b.silent(1, window{0, 10 * time.Second}), 2*time.Second; got != want {
			t.Errorf("silent = %v, want %v", got, want)
		}
	})
}
