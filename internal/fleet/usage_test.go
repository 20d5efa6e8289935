package fleet

import (
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOperationsSumsOurClientsCounters(t *testing.T) {
	t.Parallel()
	const text = `# HELP chatclub_broker_published_total Messages that the broker confirmed.
# TYPE chatclub_broker_published_total counter
chatclub_broker_published_total 12
chatclub_broker_deliveries_total{redelivered="false"} 1.5e+06
chatclub_broker_deliveries_total{redelivered="true"} 3
chatclub_broker_settled_total{by="ack"} 20
chatclub_broker_settled_total{by="requeue"} 0
chatclub_broker_republished_total 100
chatclub_broker_confirm_seconds_count 100
loadtest_strategy_errors_total 7
`
	if n, faults := counts(strings.NewReader(text)); n != 1_500_035 || faults != 7 {
		t.Errorf("counts() = %d operations, %d faults, want 1500035 and 7", n, faults)
	}
}

// What the system tells of this process: CPU time by both ways, memory, and that
// it is the one that listens.
func TestThisProcessIsMeasured(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	before, err := cpuOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := before + 100*time.Millisecond; ; {
		now, err := cpuOf(os.Getpid()) // which itself takes time
		if err != nil {
			t.Fatal(err)
		}
		if now >= end {
			break
		}
	}
	whole, err := own()
	if err != nil || whole < before+90*time.Millisecond {
		t.Errorf("own() = %v, %v, want at least %v", whole, err, before+90*time.Millisecond)
	}
	if peak, err := peakOf(os.Getpid()); err != nil || peak < 1<<20 || peak > 1<<34 {
		t.Errorf("peakOf() = %d, %v, want 1 MiB at least, 16 GiB at most", peak, err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if pid := listener("amqp://guest:guest@" + ln.Addr().String() + "/"); pid != os.Getpid() {
		t.Errorf("listener() = %d, want this process, %d", pid, os.Getpid())
	}
	if pid := listener("amqp://guest:guest@192.0.2.1:5672/"); pid != 0 {
		t.Errorf("listener() of another machine = %d, want 0", pid)
	}
}

// The machine is busy while this process is, and what is said to be ours is not
// others'.
func TestMachineTellsOthersApart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	begin := time.Now()
	before := machine(0)
	end := begin.Add(200 * time.Millisecond)
	for time.Now().Before(end) {
	}
	after := machine(0)
	if before == nil || after == nil {
		t.Fatal("machine() = nil on Linux")
	}
	if busy := after.Others - before.Others; busy < 100*time.Millisecond {
		t.Errorf("the machine was busy for %v while this test was for 200 ms, half of it at least", busy)
	}
	if same := machine(time.Hour); same.Others > after.Others-59*time.Minute {
		t.Errorf("an hour of ours leaves %v of %v to others", same.Others, after.Others)
	}
}

// In virtual time the processors' time says nothing of the run: a run of five
// seconds may have taken any time, by chance five seconds.
func TestMachineIsUnknownInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if m := machine(0); m != nil {
			t.Errorf("machine() = %+v in virtual time, want nil", m)
		}
	})
}
