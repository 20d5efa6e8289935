package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/orders"
)

// shareConfig has members keep to a tenth of their page's limits.
var shareConfig = togetherConfig{share: 10}

// TestShareOfIdlePage: twelve short texts of a member in 18 s all arrive where nobody else
// writes, in a room of any size.
func TestShareOfIdlePage(t *testing.T) {
	t.Parallel()
	for _, members := range []int{2, 8, 50, 100} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			inTogetherWith(t, shareConfig, map[string]int{"p": members}, func(g *together) {
				for i := range 12 {
					g.write("p", 0, fmt.Sprint("text ", i))
					time.Sleep(1500 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				for i := range 12 {
					if n := g.reached(fmt.Sprintf("p/m%d/", members+1+i)); n != members-1 {
						t.Errorf("text %d reached %d of %d", i, n, members-1)
					}
				}
			})
		})
	}
}

// TestShareOfOwnLimit: a member who writes three texts a second in a room of 100 uses about a
// tenth of its page's limit, whoever says that limit. One text takes 3.3 s of it.
func TestShareOfOwnLimit(t *testing.T) {
	t.Parallel()
	own := message.Limits{Text: 30}
	for _, row := range []struct {
		name  string
		file  map[string]message.Limits
		order bool
	}{{"by order", nil, true}, {"by the pages file", map[string]message.Limits{"p": own}, false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inTogetherWith(t, togetherConfig{share: 10, limits: row.file}, map[string]int{"p": 100}, func(g *together) {
				time.Sleep(5 * time.Minute) // what they wrote when they came
				if row.order {
					err := orders.Give(context.Background(), g.broker, orders.Order{Kind: orders.Limit, Page: "p", Time: time.Now().UnixMilli(), Limits: own})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				g.write("p", 1, "hello") // by which the page's limit is told
				time.Sleep(time.Minute)
				copies := 0
				var spam []string
				for i := range 120 {
					spam = append(spam, g.write("p", 0, fmt.Sprint("text ", i)))
					time.Sleep(time.Second / 3)
				}
				time.Sleep(time.Minute)
				for _, ev := range spam {
					copies += g.reached(ev)
				}
				if share := float64(copies) / (own.Text * 40); share < 0.08 || share > 0.17 {
					t.Errorf("a member's share = %.2f of its page's limit, want a tenth, and what one text more takes", share)
				}
			})
		})
	}
}

// TestSpamDelaysNobody: members who write thirty long texts each delay the short text of
// another by two seconds at most, in rooms where such a text takes what one event may. Where
// the platform is slow it is by what one such text takes, whose parts go to each person one
// after another.
func TestSpamDelaysNobody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		members, spammers int
		length            int           // characters of a text
		every             time.Duration // between two texts of each
		latency           time.Duration
		most              time.Duration
	}{
		{50, 1, 19000, time.Second / 3, 40 * time.Millisecond, 2 * time.Second},
		{50, 2, 19000, time.Second / 3, 40 * time.Millisecond, 2 * time.Second},
		{50, 2, 19000, 0, 40 * time.Millisecond, 2 * time.Second}, // all at once
		{50, 2, 19000, 2 * time.Second, 40 * time.Millisecond, 2 * time.Second},
		{100, 1, 9500, time.Second / 3, 40 * time.Millisecond, 2 * time.Second},
		{100, 2, 9500, time.Second / 3, 40 * time.Millisecond, 2 * time.Second},
		{100, 2, 19000, time.Second / 3, 40 * time.Millisecond, 2 * time.Second}, // refused in words: ten parts
		{50, 2, 19000, time.Second / 3, 700 * time.Millisecond, 10 * time.Second},
		{100, 2, 9500, time.Second / 3, 700 * time.Millisecond, 5500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			t.Parallel()
			inTogetherWith(t, togetherConfig{share: 10, join: 1}, map[string]int{"p": row.members}, func(g *together) {
				g.with(func() { g.takes = func(message.Outbound) time.Duration { return row.latency } })
				text := strings.Repeat("word ", row.length/5)
				time.Sleep(time.Minute)
				last := func(event string) (most time.Duration) {
					g.with(func() {
						for id, d := range g.waits {
							if strings.HasPrefix(id, event) && id != event+"p-0" && id != event+"p-1" { // not to the spammers
								most = max(most, d)
							}
						}
					})
					return most
				}
				calm := g.write("p", 5, "hello")
				time.Sleep(time.Minute)
				var spam, hellos []string
				began := time.Now()
				next, hello := began, began.Add(100*time.Millisecond)
				for sent := 0; sent < 30 || time.Since(began) < 15*time.Second; time.Sleep(10 * time.Millisecond) {
					for ; sent < 30 && !time.Now().Before(next); sent++ {
						for i := range row.spammers {
							spam = append(spam, g.write("p", i, text))
						}
						next = next.Add(row.every)
					}
					if !time.Now().Before(hello) {
						hellos = append(hellos, g.write("p", 5+len(hellos)%40, "hello"))
						hello = hello.Add(2300 * time.Millisecond)
					}
				}
				time.Sleep(2 * time.Minute)
				var most time.Duration
				for _, ev := range hellos {
					if n := g.reached(ev); n != row.members-1 {
						t.Errorf("a short text of another reached %d of %d", n, row.members-1)
					}
					most = max(most, last(ev)-last(calm))
				}
				whole := len(slices.DeleteFunc(spam, func(ev string) bool { return g.reached(ev) == 0 }))
				t.Logf("the spam delayed another's text by up to %v; %d long texts of %d were passed on", most, whole, 30*row.spammers)
				if most > row.most {
					t.Errorf("the spam delayed another's text by %v, want at most %v", most, row.most)
				}
			})
		})
	}
}
