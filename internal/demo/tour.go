package demo

import (
	"context"
	"time"

	"chatclub/internal/console"
)

// step is one part of the tour: what is said, what is done, and for how long it is
// looked at.
type step struct {
	text   string
	do     string // action; empty: none
	on     console.Target
	length time.Duration
}

// steps are the tour.
func (d *Demo) steps() []step {
	return []step{
		{"A page may be sent to 300 times a second. Three dispatchers share five pages, and never talk to each other.", "", console.Target{}, 4 * time.Second},
		{"Jazz asks for three times its limit. It waits in a queue of its own; nobody else does.", "flood", console.Target{Page: d.pages[0]}, 7 * time.Second},
		{"The dispatcher that sends for Jazz is killed. Another takes over, and nothing is lost.", "kill", console.Target{}, 7 * time.Second},
		{"Three more join. Nobody tells the others.", "add", console.Target{Count: 3}, 5 * time.Second},
		{"The platform halves the limit. Its own answers say so.", "halve", console.Target{}, 5 * time.Second},
		{"And gives it back.", "restore", console.Target{}, 3 * time.Second},
		{"The same load as a well-known article does it: every replica tries again what was refused.", "", console.Target{}, tourArticle},
		{"And ours again. Look at what was lost, and at what was doubled.", "", console.Target{}, 4 * time.Second},
	}
}

const (
	tourArticle = 6 * time.Second
	// tourTime is all steps together.
	tourTime = 41 * time.Second
)

// play begins the tour.
func (d *Demo) play(console.Target) (int, error) {
	n := d.begin("The tour takes 40 s …", "tour", "")
	return n, d.follow("tour", func(ctx context.Context) {
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
		if s.length == tourArticle && s.do == "" {
			n := d.begin("The same load, done the article's way …", "the article's way", "")
			d.work.Go(func() { d.doArticle(d.running, n, tourArticle) })
		}
		if s.do != "" {
			if _, err := d.Act(ctx, s.do, s.on); err != nil {
				d.begin("The tour could not go on: "+err.Error(), s.do, "")
			}
		}
		if !sleep(ctx, time.Until(end)) {
			return
		}
	}
}

func (d *Demo) say(t *console.Tour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tour = t
}
