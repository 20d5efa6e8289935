package flow

import (
	"slices"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/loadtest/strategy"
)

func articleRows(e extent) group {
	g := group{
		title: "The article's algorithm",
		text: "The excess map as ChatClub published it, in a worker of its own on one shared queue: a page in excess has its messages given back to that, " +
			"and every refused message tries again by itself. One run a row; nothing is required of it.",
	}
	add := func(r row) {
		r.strategy, r.seeds, r.latency = "article", 1, quick
		g.rows = append(g.rows, r)
	}
	for _, n := range []int{1, 4, 16} {
		if n > e.mostArticle {
			break
		}
		add(row{name: "3 × the limit", replicas: n, script: saturated(3, 15*time.Second)})
	}
	if e.mostArticle >= 4 {
		add(row{
			name: "sliding window, refused calls count", replicas: 4, script: saturated(3, 15*time.Second),
			settings: func(s *fakeapi.Settings) { s.Text.Algorithm, s.Text.CountRefused = limit.SlidingWindow, true },
		})
	}
	add(row{name: "30000 land at once", replicas: 4, capacity: queueCapacity, script: landing(30_000, false)})
	return g
}

// otherWays has the strategies but for the article's, which has its own rows.
func otherWays(e extent) group {
	g := group{
		title: "Other ways of sharing a limit",
		text: "The strategies of `loadtest/strategy` in a worker each, on one shared queue: four replicas, demand three times the limit for 25 s. Redis is in process, one hop away, and never fails. " +
			"One run a row; nothing is required of them.",
	}
	for _, i := range strategy.All() {
		if i.Name != "chatclub" && i.Name != "article" && (e.others == nil || slices.Contains(e.others, i.Name)) {
			g.rows = append(g.rows, row{name: i.Name, strategy: i.Name, latency: quick, replicas: 4, seeds: 1, script: saturated(3, e.otherLength)})
		}
	}
	if e.others == nil {
		g.rows = append(g.rows, row{
			name: "redis, 30000 land at once", strategy: "redis", latency: quick, seeds: 1, replicas: 4, capacity: queueCapacity,
			script: landing(30_000, false),
		})
	}
	return g
}
