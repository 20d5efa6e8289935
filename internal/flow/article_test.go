package flow

import (
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/internal/dispatch"
	"chatclub/internal/excess"
	"chatclub/internal/loadtest/strategy"
)

// chatclub is the gate of this project.
func chatclub(random func() float64) dispatch.Gate {
	return excess.New(excess.Config{
		Limit: func(string) float64 { return pageLimit }, LaneHold: lanePrefetch, Random: random,
	}, time.Now())
}

// article is the gate that ChatClub published.
func article(random func() float64) dispatch.Gate { return strategy.NewArticle(random) }

func articleRows() group {
	g := group{
		title: "The article's algorithm",
		text: "The excess map as ChatClub published it, in the same loop, without the lanes: a page in excess has its messages given back to `outbound`, " +
			"and every refused message tries again by itself. One run a row; nothing is required of it.",
	}
	add := func(r row) {
		r.gate, r.seeds = article, 1
		g.rows = append(g.rows, r)
	}
	for _, n := range []int{1, 4, 16} {
		if n > mostArticle {
			break
		}
		add(row{name: "3 × the limit", replicas: n, script: saturated(3, 15*time.Second)})
	}
	if mostArticle >= 4 {
		add(row{
			name: "sliding window, refused calls count", replicas: 4, script: saturated(3, 15*time.Second),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = limit.SlidingWindow, true },
		})
	}
	add(row{name: "30000 directly", replicas: 4, lanes: 64, capacity: queueCapacity, script: landing(30_000, false, 20*time.Second)})
	return g
}
