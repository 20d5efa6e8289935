package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"chatclub/internal/replicas"
)

var english = message.NewPrinter(language.English)

// headline says what is wrong with RabbitMQ and the programs, and then what is happening on
// pages. Dispatchers that do not answer are in the latter.
func headline(s *State) Sentence {
	all := slices.DeleteFunc(slices.Clone(s.Programs), func(h replicas.Health) bool { return h.Program == "dispatcher" && !h.Answers })
	pages, trouble := sentence(s), replicas.Trouble(all, s.Broker)
	if trouble == "" {
		return pages
	}
	return Sentence{trouble + " " + pages.Text, Sick}
}

// onBroker says how many messages wait, as far as somebody can count them.
func (s *State) onBroker() string {
	if s.Broker != nil {
		if n, known := s.Broker.Ready("outbound", "lanes", "retry"); known {
			return english.Sprintf("%s on RabbitMQ", Plural(n, "message waits", "messages wait"))
		}
	}
	return "how many messages wait is not known"
}

// sentence says what is happening on pages.
func sentence(s *State) Sentence {
	running, lost := 0, 0
	var down []string // the dispatchers whose calls all fail
	all := true       // those that send for a page
	for _, d := range s.Dispatchers {
		if d.APIDown {
			down = append(down, d.Name)
		} else if d.State == "running" && len(d.Pages) > 0 {
			all = false
		}
		switch d.State {
		case "running":
			running++
		case "lost":
			lost++
		}
	}
	waiting := 0
	for _, p := range s.Pages {
		waiting += p.Waiting
	}
	switch {
	case s.Strategy == "article":
		return article(s)
	case running == 0 && len(s.Dispatchers) == 0 && len(s.Pages) == 0:
		return Sentence{"Starting …", Calm}
	case running == 0 && s.Verdict == nil: // those who hold messages do not answer
		return Sentence{"No dispatcher runs: " + s.onBroker() + ".", Sick}
	case running == 0:
		return Sentence{english.Sprintf("No dispatcher runs: %d copies wait.", waiting), Sick}
	}
	sends := sendsLately(s)
	if len(down) > 0 && all && !sends {
		return Sentence{english.Sprintf("The API takes no calls: %d copies wait until it does.", waiting), Sick}
	}
	suffix := ""
	if lost > 0 {
		suffix = english.Sprintf(" %s not answer.", Plural(lost, "dispatcher does", "dispatchers do"))
	}
	if len(down) > 0 {
		who := down[0] + " does"
		if len(down) > 1 {
			who = english.Sprintf("%d dispatchers do", len(down))
		}
		suffix += " " + who + " not reach the API"
		if sends {
			suffix += "; others do"
		}
		suffix += "."
	}
	for _, p := range s.Pages {
		var text string
		switch p.State {
		case "suspended":
			text = fmt.Sprintf("Nothing is sent for %s: the API stopped it (%s). %s", p.Name, p.Why, others(s, p.ID))
		case "sick":
			text = english.Sprintf("Calls for %s fail: %d wait. %s", p.Name, p.Waiting, others(s, p.ID))
		default:
			if p.State == "paused" || p.Waiting == 0 || p.Reason.Explain().Alone {
				continue
			}
			text = english.Sprintf("%s: %d wait %s. %s", p.Name, p.Waiting, p.Waits, others(s, p.ID))
		}
		return Sentence{strings.TrimSpace(text) + suffix, Sick}
	}
	if i := slices.IndexFunc(s.Pages, func(p Page) bool { return p.State == "paused" }); i >= 0 {
		level := Excess
		if suffix != "" {
			level = Sick
		}
		p := s.Pages[i]
		return Sentence{strings.TrimSpace(fmt.Sprintf("Nothing is sent for %s: it is paused (%s). %s", p.Name, p.Why, others(s, p.ID))) + suffix, level}
	}
	busy := slices.DeleteFunc(slices.Clone(s.Pages), func(p Page) bool { return p.State != "excess" })
	if len(busy) == 0 {
		level := Calm
		if suffix != "" {
			level = Sick
		}
		return Sentence{calm(s) + suffix, level}
	}
	slices.SortStableFunc(busy, func(a, b Page) int { return cmp.Compare(b.Waiting, a.Waiting) })
	p := busy[0]
	var text string
	switch {
	case p.Waiting > 0 && !p.waitsForLimit():
		text = english.Sprintf("%s: %d wait %s.", p.Name, p.Waiting, p.Waits)
	case p.Asked > p.Limit:
		text = english.Sprintf("%s asks for %d/s and may have %d: %d wait, %s.", p.Name, p.Asked, p.Limit, p.Waiting, seconds(p.Wait))
	case p.Waiting > 0:
		text = english.Sprintf("%s may have %d/s, and catches up: %d still wait, %s.", p.Name, p.Limit, p.Waiting, seconds(p.Wait))
	default:
		text = english.Sprintf("%s has caught up.", p.Name)
	}
	if more := len(busy) - 1; more > 0 {
		text += english.Sprintf(" %s in excess too.", Plural(more, "page is", "pages are"))
	}
	level := Excess
	if suffix != "" {
		level = Sick
	}
	return Sentence{strings.TrimSpace(text+" "+others(s, p.ID)) + suffix, level}
}

// lately is the number of seconds for which a page's calls tell how it fares.
const lately = 3

// sendsLately reports whether any page has been sent to in the last seconds: then the
// API takes calls, whatever one dispatcher sees.
func sendsLately(s *State) bool {
	return slices.ContainsFunc(s.Pages, func(p Page) bool {
		sent := p.History.Sent
		return slices.Max(append([]int{0}, sent[max(0, len(sent)-lately):]...)) > 0
	})
}

// calm returns the sentence for the time when nothing waits.
func calm(s *State) string {
	sent := 0
	for _, p := range s.Pages {
		sent += p.Sent
	}
	if sent == 0 {
		return "Nobody writes."
	}
	delay, _ := delayOf(s, "")
	return english.Sprintf("All get what they ask for: %d calls a second, each copy within %s.", sent, seconds(delay))
}

// others says how the pages beside one fare.
func others(s *State, page string) string {
	delay, ok := delayOf(s, page)
	if !ok {
		return ""
	}
	return "Everybody else: " + seconds(delay) + "."
}

// article returns the sentence for the time when messages are sent the article's way.
func article(s *State) Sentence {
	sent, refused := 0, 0
	for _, p := range s.Pages {
		sent += p.Sent
		refused += p.Refused
	}
	text := "The article's way: refused messages are tried again by every replica."
	if refused > 0 && sent > 0 {
		text = english.Sprintf("The article's way: %d refused calls for %d accepted in the last second.", refused, sent)
	}
	if worst := slices.MaxFunc(append([]Page{{}}, s.Pages...), func(a, b Page) int { return cmp.Compare(a.Refused, b.Refused) }); worst.ID != "" {
		text += " " + others(s, worst.ID)
	}
	return Sentence{strings.TrimSpace(text), Sick}
}

// delayOf is the mean delay of the last three seconds, of all pages but one. It is
// false when none of them sent anything.
func delayOf(s *State, besides string) (delay float64, ok bool) {
	sum, n := 0, 0
	for _, p := range s.Pages {
		if p.ID == besides || p.State == "excess" {
			continue
		}
		h := p.History
		for i := max(0, len(h.Sent)-lately); i < len(h.Sent); i++ {
			sum += h.Delay[i] * h.Sent[i]
			n += h.Sent[i]
		}
	}
	if n == 0 {
		return 0, false
	}
	return float64(sum) / float64(n) / 1000, true
}

// seconds is a duration for people.
func seconds(s float64) string {
	switch {
	case s < 0.9995:
		return english.Sprintf("%.0f ms", math.Max(1, 1000*s))
	case s < 9.95:
		return english.Sprintf("%.1f s", s)
	case s < 120:
		return english.Sprintf("%.0f s", s)
	}
	return english.Sprintf("%.0f min", s/60)
}

// Plural is a number of things, in words.
func Plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return english.Sprintf("%d %s", n, more)
}
