package flow

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"chatclub/loadtest/report"
)

// process returns the broker that a queue is on, where the partitions are spread
// over several: the i-th is on broker i mod their number, a lane is where its
// partition is, and all other queues are on the first.
func (r row) process() func(string) string {
	if r.brokers == 0 {
		return nil
	}
	return func(name string) string {
		words, i := strings.Split(name, "."), 0 // as in flow.outbound.7 and flow.lane.7.2
		if len(words) > 2 && (words[1] == "outbound" || words[1] == "lane") {
			i, _ = strconv.Atoi(words[2])
		}
		return strconv.Itoa(i % r.brokers)
	}
}

// perMessage is the least number of the broker's operations for a message: a publish,
// a delivery and an acknowledgement.
const perMessage = 3

// started is the time in which dispatchers share the partitions.
const started = 10 * time.Second

// deployment is of one size.
type deployment struct {
	dispatchers, pages, hotPages int
	carries                      int           // messages a second of one broker
	length                       time.Duration // of the load
}

// spreadOut is a row of a deployment on so many brokers, with a demand of a share
// of what one carries. A few pages have one and a half times their limit.
func (d deployment) spreadOut(brokers int, ofOne float64, bounds ...report.Bound) row {
	demand := ofOne * float64(d.carries)
	return row{
		name:     fmt.Sprintf("%.0f messages a second, brokers: %d", demand, brokers),
		replicas: d.dispatchers, brokers: brokers, partitions: 48 * brokers, capacity: perMessage * d.carries, latency: slow, bounds: bounds,
		script: func(r *rig) {
			rates := make(map[int]float64, d.pages)
			rest := demand
			for page := 1; page <= d.hotPages; page++ {
				rates[page] = 1.5 * pageLimit
				rest -= rates[page]
			}
			for page := d.hotPages + 1; page <= d.pages; page++ {
				rates[page] = rest / float64(d.pages-d.hotPages)
			}
			r.until(started) // what dispatchers tell each other then is much for a small broker
			stop := r.demand(spread(rates, 2000))
			end := started + d.length
			r.until(end)
			stop()
			w := window{started + 4*time.Second, end}
			r.flow(w, pageLimit, report.Quota, report.Refused)
			r.until(w.to + 2*time.Second)
			r.waiting(w, func(e *entry) bool { return int(e.page) > d.hotPages })
		},
	}
}

// rows are below what one broker carries, above it, and the same and more on
// several.
func (d deployment) rows() []row {
	flows := []report.Bound{report.AtMost(waitP50, .05), report.AtMost(waitP99, 1.5), report.AtMost(report.Refused, .01)}
	above := d.spreadOut(1, 1.25, report.AtLeast(waitP50, .2)) // what one broker does not carry waits
	above.faulty = true                                        // and may arrive in another order
	return []row{
		d.spreadOut(1, .75, flows...),
		above,
		d.spreadOut(2, 1.25, flows...),
		d.spreadOut(3, 2, flows...),
	}
}

// Beyond what one broker carries, the partitions of several carry more, and each page
// is sent as before. The short form has a deployment of the same shape. The long one
// takes minutes of processor time.
func TestBeyondOneBroker(t *testing.T) {
	t.Parallel()
	d := deployment{dispatchers: 64, pages: 50_000, hotPages: 4, carries: 10_000, length: 6 * time.Second}
	if testing.Short() {
		d = deployment{dispatchers: 4, pages: 500, hotPages: 0, carries: 200, length: 6 * time.Second}
	}
	var runs []report.Run
	for _, row := range d.rows() {
		if d.hotPages == 0 {
			row.bounds = row.bounds[:min(len(row.bounds), 2)]
		}
		t.Run(row.name, func(t *testing.T) {
			runs = append(runs, measure(t, row))
		})
	}
	t.Log("\n" + report.Markdown(runs))
}
