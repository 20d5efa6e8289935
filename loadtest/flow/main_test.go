package flow

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if raced { // which makes five bytes of one
		debug.SetGCPercent(20)
	} else { // a run has little alive, and a quarter of the processor time was the collector's
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(2 << 30)
	}
	goleak.VerifyTestMain(m)
}
