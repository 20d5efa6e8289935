package flow

import "chatclub/loadtest/report"

// The figures of the tables beside those that all load tests have.
const (
	quotaStart   = report.Quota + ": from the start"
	refusedStart = report.Refused + ": from the start"
	quota20      = report.Quota + ": in 20 s"
	refused20    = "613s in 20 s"
	quotaLater   = report.Quota + ": later"
	refusedLater = report.Refused + ": later"
	ratioP50     = "p50 ratio"
	ratioP99     = "p99 ratio"
	stall        = report.Wait + ": longest"
	late         = report.Wait + ": p99 beyond ideal"
	waitP50      = report.Wait + ": p50"
	waitP99      = report.Wait + ": p99"
	sickCalls    = "calls to the sick"
	mostCalls    = "most calls for one"
)
