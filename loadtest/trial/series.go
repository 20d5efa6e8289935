package trial

import (
	"time"

	"chatclub/loadtest/judge"
	"chatclub/loadtest/report"
)

// coarse is a page against its limit, or all of them, by seconds of the run.
// Other apps' calls are in it: they are what the limit saw.
func (t *trial) coarse(page string) report.Series {
	s := report.Series{Name: "page " + page, StepMS: 1000}
	n := int(max(t.length, t.drained)/time.Second) + 1
	s.Sent, s.Refused = make([]int64, n), make([]int64, n)
	for i := range n {
		sec := t.recorder.seconds[page][t.controls.begin.Unix()+int64(i)]
		calls := t.judged(sec)
		s.Sent[i], s.Refused[i] = calls.Accepted, calls.Refused
	}
	if page == "" {
		s.Name = "all pages"
		return s
	}
	for i := range n {
		s.Limit = append(s.Limit, t.limitIn(i, time.Second))
	}
	return s
}

// fine is the hot pages together, by tenths of a second; refusals are not known
// so finely.
func (t *trial) fine(g judge.Group) report.Series {
	s := report.Series{Name: "hot pages", StepMS: tenth.Milliseconds(), Sent: t.tenths(g)}
	for i := range s.Sent {
		s.Limit = append(s.Limit, t.limitIn(i, tenth)*tenth.Seconds())
	}
	return s
}

func ratio(a, b float64) *float64 {
	if b <= 0 {
		return nil
	}
	return new(a / b)
}

func sum(cells []int64) (n int64) {
	for _, c := range cells {
		n += c
	}
	return n
}

// window are the cells from … to−1, as far as there are any.
func window(cells []int64, from, to int) []int64 {
	to = min(to, len(cells))
	return cells[min(from, to):to]
}

func add(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	for i, v := range b {
		a[i] += v
	}
	return a
}
