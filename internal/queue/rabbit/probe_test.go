package rabbit

import (
	"testing"
	"testing/synctest"
	"time"
)

// newSilent is a prober of a session that answers only what a test says.
func newSilent() *prober {
	p := &prober{began: time.Now(), prompt: make([]time.Duration, 3)}
	p.most.Store(int64(maxSilence))
	return p
}

// answer lets each question be answered after so long, for a while.
func (p *prober) answer(after, total time.Duration) {
	for end := p.now() + total; p.now() < end; {
		asked := p.now()
		time.Sleep(after)
		for i := range p.prompt {
			p.hear(i, asked, p.now())
		}
		time.Sleep(max(0, probeEvery-after))
	}
}

// A broker that answers at once is silent after 1.5 s, and one that always
// takes long after what it takes.
func TestIsSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after       time.Duration
		least, most time.Duration
	}{
		{time.Millisecond, 1500 * time.Millisecond, 1501 * time.Millisecond},
		{300 * time.Millisecond, 1500 * time.Millisecond, 1900 * time.Millisecond},
		{3 * time.Second, 4 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newSilent()
			p.answer(c.after, 5*time.Minute)
			heard := p.silence()
			for p.silence() < c.most+time.Millisecond {
				if got := p.isSilent(); got && p.silence() <= c.least {
					t.Fatalf("isSilent() = true after %s, when answers take %s; want %s at least", p.silence(), c.after, c.least)
				}
				time.Sleep(time.Millisecond)
			}
			if !p.isSilent() {
				t.Errorf("isSilent() = false after %s, when answers take %s", p.silence(), c.after)
			}
			if heard > probeEvery {
				t.Errorf("silence() = %s after an answer, want %s at most", heard, probeEvery)
			}
		})
	}
}

// While a broker's answers become slow it is silent once, and not again and
// again.
func TestSlowBrokerDoesNotFlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSilent()
		p.answer(time.Millisecond, time.Minute)
		silences, was := 0, false
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.answer(2500*time.Millisecond, time.Minute)
		}()
		for watching := true; watching; {
			select {
			case <-done:
				watching = false
			case <-time.After(10 * time.Millisecond):
				if is := p.isSilent(); is != was {
					if was = is; is {
						silences++
					}
				}
			}
			if p.stalled(answerTimeout) {
				t.Fatal("stalled() = true, want a slow broker to be kept")
			}
		}
		if silences != 1 {
			t.Errorf("silent %d times, want once", silences)
		}
	})
}

// A process that did not run could not hear the broker: no session ends for that,
// and nothing is sent before the broker has answered.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSilent()
		p.answer(time.Millisecond, 10*time.Second)
		time.Sleep(time.Minute)
		p.excuse()
		if p.stalled(answerTimeout) {
			t.Error("stalled() = true at once after a pause, want false")
		}
		if !p.isSilent() {
			t.Error("isSilent() = false before an answer, want true")
		}
		time.Sleep(answerTimeout + probeEvery + time.Millisecond)
		if !p.stalled(answerTimeout) {
			t.Error("stalled() = false without an answer since, want true")
		}
	})
}

// Answers that come so late that they may be about nothing are none.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSilent()
		p.answer(5*time.Second, time.Minute)
		if !p.stalled(answerTimeout) {
			t.Error("stalled() = false with answers after 5 s, want true")
		}
	})
}
