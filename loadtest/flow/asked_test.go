package flow

import (
	"context"
	"strconv"
	"time"

	"chatclub/loadtest/report"

	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/loadtest/fleet"
)

// The figures of these rows alone.
const (
	tooLate = "sent behind their deadline"
	owners  = "dispatchers that own partitions"
)

// asked returns the rows of demands by messages and operators, and of refusals and sickness.
func asked() group {
	return group{
		title: "What messages and operators ask for",
		text: "Kinds: 600 broadcasts of a page land at once beside its conversations, at 50 a second, whose waits these are; another page's 100 messages with a deadline are behind a backlog that takes longer; and what a third page is sent is published twice. " +
			"Paused: a page is paused from 10 s to 40 s, and silent from 11 s to 39 s. Six dispatchers come at 12 s, and at 26 s all are replaced by two. The waits, up to 25 s, are those of a page beside it; delivered are those of the paused one. " +
			"Refused: a refusal is no attempt, so nobody is dead when five calls fail afterwards, and order stays. " +
			"Sick: the stall is that of a page with 100 messages a second, and of one with a message every 20 s beside those to the sick person.",
		rows: []row{kinds(), paused(), refusedForLong(), besideTheSick()},
	}
}

func kinds() row {
	return row{
		name: "broadcasts, deadlines and repeats", replicas: 2, latency: quick, deaths: true,
		bounds: []report.Bound{report.AtMost(waitP99, .6), report.AtMost(tooLate, 0)},
		script: func(r *rig) {
			many := func(n, page int, change func(*message.Outbound)) {
				var msgs []queue.Message
				for i := range n {
					msgs = append(msgs, r.message(copyOf{page: page, to: 5000 + i, change: change}))
				}
				r.publish(msgs)
			}
			r.demand(saturate(busyPage, 50))
			r.until(start)
			many(600, busyPage, func(o *message.Outbound) { o.Broadcast, o.Joins = "sale", false })
			r.backlog(hot, 10*pageLimit, 10*pageLimit)
			time.Sleep(cell) // until it is before what follows
			many(100, hot, func(o *message.Outbound) { o.Deadline = time.Now().Add(3 * time.Second).UnixMilli() })
			for i := range 10 {
				again := []queue.Message{r.message(copyOf{page: quietPage, to: i})}
				r.publish(again)
				time.Sleep(time.Second)
				r.publish(again)
			}
			r.until(start + 15*time.Second)
			r.waiting(window{start, start + 2*time.Second}, func(e *entry) bool { return e.page == busyPage && e.to < 5000 })
			r.figures[tooLate], _, _ = r.record.delivered(func(e *entry) bool { return e.page == hot && e.to >= 5000 })
		},
	}
}

func paused() row {
	return row{
		name: "a page is paused while dispatchers come and go", replicas: 2, latency: quick, faulty: true,
		bounds: []report.Bound{report.AtLeast(report.Silence, 28), report.AtLeast(report.Others, 1), report.AtMost(waitP99, 3), report.AtLeast(owners, 8)},
		script: func(r *rig) {
			beside := r.beside()
			r.demand(saturate(beside, 50))
			stop := r.demand(saturate(hot, 30))
			r.until(start)
			r.must(orders.Give(r.ctx, r.fleet.Broker(), orders.Order{
				Kind: orders.Pause, Page: strconv.Itoa(hot), Time: time.Now().UnixMilli(), Until: time.Now().Add(30 * time.Second).UnixMilli(),
			}))
			r.until(12 * time.Second)
			for range 6 {
				r.join()
			}
			r.until(26 * time.Second)
			stop()
			own := make(map[*fleet.Dispatcher]bool)
			for i := range r.topology().Partitions {
				own[r.fleet.Owner(r.topology().Outbound(i))] = true
			}
			r.figures[owners] = float64(len(own))
			r.waiting(window{start, 25 * time.Second}, func(e *entry) bool { return int(e.page) == beside })
			r.leave(r.fleet.Dispatchers()...)
			r.join()
			r.join()
			r.until(50 * time.Second)
			r.figures[report.Silence] = r.record.silent(hot, window{11 * time.Second, 39 * time.Second}).Seconds()
			r.figures[report.Others], _, _ = r.record.delivered(func(e *entry) bool { return e.page == hot })
		},
	}
}

func refusedForLong() row {
	return row{
		name: "nothing passes for a minute, and then calls to one person fail", replicas: 1, latency: quick,
		bounds: []report.Bound{report.AtLeast(report.Others, 1)},
		script: func(r *rig) {
			failed := 0
			r.breaks(everyPage, func(ctx context.Context, next dispatch.Caller, m message.Outbound) sender.Result {
				if r.now() < time.Minute {
					return refuses(ctx, r.row.median())
				}
				if m.To != "1000000" || failed == 5 { // one call to a person at a time
					return next.Send(ctx, m)
				}
				failed++
				return fails(ctx, 2, r.row.median())
			})
			r.speaks(room{hot, 0, 20}, 3*time.Second, 90*time.Second) // 32 messages may wait for one that is tried again
			r.until(2 * time.Minute)
			r.figures[report.Others], _, _ = r.record.delivered(everybody)
		},
	}
}

func besideTheSick() row {
	return row{
		name: "a page is throttled as if it were the app, and a person is sick", replicas: 2, latency: quick, faulty: true, deaths: true,
		bounds: []report.Bound{report.AtMost(stall, 1)},
		script: func(r *rig) {
			r.breaks(everyPage, func(ctx context.Context, next dispatch.Caller, m message.Outbound) sender.Result {
				sick := m.Page == strconv.Itoa(quietPage) && m.To == "1000000"
				if !sick && m.Page != strconv.Itoa(sickPage) {
					return next.Send(ctx, m)
				}
				res := fails(ctx, 2, r.row.median())
				if !sick && res.Outcome == sender.Transient {
					res.Outcome = sender.AppThrottled
				}
				return res
			})
			const length = 3 * time.Minute
			r.demand(saturate(sickPage, 20))
			r.demand(saturate(busyPage, 100))
			r.speaks(room{quietPage, 0, 1}, time.Second, length)
			r.speaks(room{quietPage, 1, 1}, 20*time.Second, length)
			r.until(length)
			well := func(e *entry) bool { return e.page == busyPage || e.page == quietPage && e.to == 1 }
			r.figures[stall] = quantile(r.record.waits(window{start, length - time.Second}, well), 1).Seconds()
		},
	}
}
