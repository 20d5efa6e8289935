package flow

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if raced { // which makes five bytes of one
		debug.SetGCPercent(20)
	}
	goleak.VerifyTestMain(m)
}
