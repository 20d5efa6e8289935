package dispatch

import (
	"cmp"
	"slices"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// Arrival is the predicted delay of a message that is written to a page now: nine of ten
// arrive between From and To.
type Arrival struct {
	After float64 `json:"after"` // seconds from now
	From  float64 `json:"from"`
	To    float64 `json:"to"`
}

// forecast predicts when a message of one page and class arrives that is written now: what
// waits before it goes at the rate of the last seconds, and then its own call is made. How
// wrong earlier predictions were says how sure this one is.
type forecast struct {
	rate    float64       // messages sent per second while some wait; the pace while none does
	busy    bool          // some waited at the last look
	sent    int64         // traffic.sent at the last look
	looked  time.Time     // when that was; zero: never, or nothing was to be sent since
	latency time.Duration // of calls, smoothed
	after   time.Duration // as of the last look; 0: it is not known
	made    []prediction  // not checked yet, the oldest first
	ratios  []float64     // how long it took by what was predicted, the last of them
	next    int           // in ratios, the oldest
	report  report        // to core, the last one
}

// prediction is made at one time, and checked by one of the messages that were written after
// it and before the next one.
type prediction struct {
	at       time.Time
	after    time.Duration
	messages int           // that were sent
	took     time.Duration // one of them, at random
}

const (
	// forecastEvery is the period of the forecasts.
	forecastEvery = 250 * time.Millisecond
	// rateTime smooths a page's rate. A burst of its pace is shorter.
	rateTime = 2 * time.Second
	// minRate is the least rate that says anything.
	minRate = 0.01
	// mostRatios is the largest number of earlier predictions behind a forecast's margins.
	// Between the second least and the most of 40 are 38 of 41, and a few fewer where
	// things change.
	mostRatios = 40
	// mostPredictions bounds those that wait to be checked.
	mostPredictions = 1000
	// predictEvery is the interval between two predictions that are kept to be checked.
	predictEvery = time.Second
)

// look brings the forecast to now. ahead is how many messages are before one that is
// written now, and pace how many calls a second there may be.
func (f *forecast) look(now time.Time, t *traffic, ahead int, pace float64) {
	if dt := now.Sub(f.looked).Seconds(); !f.busy || f.looked.IsZero() {
		f.rate = pace
	} else if dt > 0 {
		f.rate += min(1, dt/rateTime.Seconds()) * (float64(t.sent-f.sent)/dt - f.rate)
	}
	f.looked, f.sent, f.busy = now, t.sent, ahead > 0
	if f.rate < minRate {
		f.rate = 0
	}
	switch f.after = 0; {
	case f.latency == 0:
		return
	case ahead == 0:
		f.after = f.latency
	case f.rate == 0: // nothing is sent
		return
	default:
		f.after = f.latency + time.Duration(float64(ahead)/f.rate*float64(time.Second))
	}
	if n := len(f.made); n < mostPredictions && (n == 0 || now.Sub(f.made[n-1].at) >= predictEvery) {
		f.made = append(f.made, prediction{at: now, after: f.after})
	}
}

// check learns from a message that was sent, in a call that began then and has ended now.
func (f *forecast) check(written, began, now time.Time, random float64) {
	if written.After(now) { // by another clock
		return
	}
	if f.latency == 0 {
		f.latency = now.Sub(began)
	}
	f.latency += (now.Sub(began) - f.latency) / 16
	i := len(f.made) - 1
	for i >= 0 && f.made[i].at.After(written) {
		i--
	}
	if i < 0 {
		return
	}
	for _, p := range f.made[:i] { // those that were written then are sent
		f.learn(p)
	}
	f.made = slices.Delete(f.made, 0, i)
	p := &f.made[0]
	if p.messages++; random*float64(p.messages) < 1 {
		p.took = now.Sub(written)
	}
}

// learn takes how wrong a prediction was.
func (f *forecast) learn(p prediction) {
	if p.messages == 0 || p.after <= 0 {
		return
	}
	ratio := p.took.Seconds() / p.after.Seconds()
	if len(f.ratios) < mostRatios {
		f.ratios = append(f.ratios, ratio)
		return
	}
	f.ratios[f.next] = ratio
	f.next = (f.next + 1) % mostRatios
}

// arrival returns the prediction, nil if there is none.
func (f *forecast) arrival() *Arrival {
	if f.after == 0 {
		return nil
	}
	// Those that are missing are as wrong as may be expected of a page that is not known.
	list := append(make([]float64, 0, mostRatios+3), f.ratios...)
	if len(list) < mostRatios {
		list = append(list, 0.75, 0.75, 1.4)
	}
	slices.Sort(list)
	at := f.after.Seconds()
	return &Arrival{After: at * list[len(list)/2], From: at * list[1], To: at * list[len(list)-1]}
}

// forecasts makes the forecasts of all pages.
type forecasts struct {
	*run
	pages  *pages
	claims *claims
}

// look makes the forecasts of all pages, and tells core of those that have something new.
func (fs *forecasts) look() {
	now := fs.Now()
	fs.timers.add(now.Add(forecastEvery), fs.look)
	var msgs []queue.Message
	for k, t := range fs.pages.traffic {
		if !fs.claims.isOwner(k.Page) { // its owner knows
			t.forecast = forecast{}
			continue
		}
		f, l := &t.forecast, fs.pages.lines[k]
		ahead := 0
		if l != nil {
			ahead = l.waiting
			if s := l.spill; s != nil { // its part of a lane that others share
				ahead += s.moving + s.lane.beyond*(l.waiting-l.fromPartition)/max(1, s.lane.source.inHand)
			}
		}
		still := fs.isStill(k, now)
		if still { // nobody knows for how long
			f.looked, f.after = time.Time{}, 0
		} else {
			pace := fs.pages.gate.View(k).Pace
			if pace == 0 { // it was sent nothing for a while
				pace = fs.limitsOf(k.Page).Of(k.Class)
			}
			f.look(now, t, ahead, pace)
		}
		if k.Class != string(message.ClassText) {
			continue
		}
		if m, ok := fs.tellWaiting(now, k, t, ahead, still); ok {
			msgs = append(msgs, m)
		}
	}
	// So that a run in virtual time is always the same.
	slices.SortFunc(msgs, func(a, b queue.Message) int { return cmp.Compare(a.Queue+a.ID, b.Queue+b.ID) })
	if len(msgs) > 0 { // one that is lost is followed by another, or no longer believed
		fs.publish(flushTimeout, msgs, func(err error) {
			if err != nil {
				fs.Log.Debug("tell core what waits", "err", err)
			}
		})
	}
}

// isStill reports whether nothing is sent for a page now.
func (fs *forecasts) isStill(k excess.Key, now time.Time) bool {
	hold, _, _ := fs.pages.circuits.Hold(now, &message.Outbound{Page: k.Page, Class: message.Class(k.Class)})
	return hold != circuit.Pass || fs.pages.circuits.IsOpen() || fs.pages.isShut(k, now)
}
