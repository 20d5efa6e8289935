package machine

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// The machine is busy while this process is, and time said to be ours is not
// others'.
func TestMachineTellsOthersApart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	begin := time.Now()
	before := Read(0)
	end := begin.Add(200 * time.Millisecond)
	for time.Now().Before(end) {
	}
	after := Read(0)
	if before == nil || after == nil {
		t.Fatal("Read() = nil on Linux")
	}
	if busy := after.Others - before.Others; busy < 100*time.Millisecond {
		t.Errorf("the machine was busy for %v while this test was for 200 ms, half of it at least", busy)
	}
	if same := Read(time.Hour); same.Others > after.Others-59*time.Minute {
		t.Errorf("an hour of ours leaves %v of %v to others", same.Others, after.Others)
	}
}

// In virtual time the processors' time says nothing of the run: a run of five
// seconds may have taken any time, by chance five seconds.
func TestMachineIsUnknownInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if m := Read(0); m != nil {
			t.Errorf("Read() = %+v in virtual time, want nil", m)
		}
	})
}
