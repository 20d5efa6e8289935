package trial

import (
	"math"
	"runtime"
	"time"

	"chatclub/internal/loadtest/fleet"
	"chatclub/internal/loadtest/report"
)

// used is what the system had used of the machine when the load began and when
// it ended.
type used struct {
	started, ended fleet.Usage
	measured       time.Duration // between them
}

// costs are what the machine and the broker say, from the begin of the load to
// its end, per message sent in that time.
func (u *used) costs(run *report.Run) {
	sent := float64(*run.Sent)
	if u.started.Operations != nil && u.ended.Operations != nil {
		run.BrokerOpsPerSent = ratio(float64(*u.ended.Operations-*u.started.Operations), sent)
	}
	per := func(from, to *time.Duration) *float64 {
		if from == nil || to == nil {
			return nil
		}
		return ratio(float64((*to - *from).Microseconds()), sent)
	}
	run.CPUUSPerSent = per(u.started.All, u.ended.All)
	run.PeakMemoryBytes = u.ended.Memory
	if u.ended.Whole {
		return
	}
	run.CPU = &report.CPUSplit{
		Dispatchers: per(u.started.Dispatchers, u.ended.Dispatchers),
		Front:       per(u.started.Ingress, u.ended.Ingress),
		Broker:      per(u.started.Broker, u.ended.Broker), Fake: per(u.started.Fake, u.ended.Fake),
	}
}

// most is the share of the processors that other programs may have had: with
// more, whose turn it was decides about latencies and costs.
const most = 0.25

// others is that share while the load lasted; 0 where it is not known, and where
// the kernel counts other processors than this program's.
func (u *used) others() float64 {
	if u.started.Machine == nil || u.ended.Machine == nil {
		return 0
	}
	all := (u.ended.Machine.All - u.started.Machine.All).Seconds()
	if passed := all / float64(runtime.NumCPU()); math.Abs(passed/u.measured.Seconds()-1) > .05 {
		return 0
	}
	return (u.ended.Machine.Others - u.started.Machine.Others).Seconds() / all
}
