package demo

import (
	"context"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/console"
)

// step is one part of the tour: what is said, what is done, and for how long it is
// looked at.
type step struct {
	text   string
	do     func() error
	length time.Duration
}

// steps are the tour, some 40 s.
func (d *Demo) steps() []step {
	act := func(name string, on console.Target) func() error {
		return func() error {
			_, err := d.Act(d.running, name, on)
			return err
		}
	}
	look := func() error { return nil }
	return []step{
		{"The platform takes 300 messages a second for a page. The dispatchers share the pages, and never talk to each other.", look, 4 * time.Second},
		{d.Name(d.pages[0]) + " asks for three times that. It waits in a queue of its own; nobody else does.", act("flood", console.Target{Page: d.pages[0]}), 7 * time.Second},
		{"The dispatcher that sends for it is killed. Another takes over, and nothing is lost.", act("kill", console.Target{}), 6 * time.Second},
		{"Three more join. Nobody tells the others.", act("add", console.Target{Count: 3}), 5 * time.Second},
		{"The platform halves the limit. Only its answers say so.", act("halve", console.Target{}), 5 * time.Second},
		{"And gives it back.", act("restore", console.Target{}), 3 * time.Second},
		{"The same load as a well-known article does it: every replica tries again what was refused.", func() error { _, err := d.doArticle(tourArticleTime); return err }, tourArticleTime},
		{"And ours again. Look at what was lost, and at what was doubled.", look, 4 * time.Second},
	}
}

const (
	tourArticleTime = 6 * time.Second
	// tourTime is all steps together.
	tourTime = 40 * time.Second
)

// play begins the tour.
func (d *Demo) play(console.Target) (int, error) {
	n := d.begin("The tour takes 40 s …", "tour", "")
	return n, d.follow("tour", "", tourTime, func(ctx context.Context, _ func()) {
		d.Play(ctx)
		d.write(n, "The tour has ended.", console.Calm, true)
	})
}

// Play is the tour, from its beginning to its end.
func (d *Demo) Play(ctx context.Context) {
	defer d.say(nil)
	list := d.steps()
	for i, s := range list {
		end := time.Now().Add(s.length)
		d.say(&console.Tour{Step: i + 1, Of: len(list), Text: s.text})
		if err := s.do(); err != nil {
			d.write(d.begin("", "", ""), "The tour left something out: "+err.Error()+".", console.Calm, true)
		}
		if !backoff.Sleep(ctx, time.Until(end)) {
			return
		}
	}
}

func (d *Demo) say(t *console.Tour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tour = t
}
