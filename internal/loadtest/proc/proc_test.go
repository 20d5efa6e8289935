package proc

import (
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// The system knows of this process: CPU time by both ways, memory, and that
// it is the one that listens.
func TestThisProcessIsMeasured(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := before + 100*time.Millisecond; ; {
		now, err := CPU(os.Getpid()) // which itself takes time
		if err != nil {
			t.Fatal(err)
		}
		if now >= end {
			break
		}
	}
	whole, err := Self()
	if err != nil || whole < before+90*time.Millisecond {
		t.Errorf("Self() = %v, %v, want at least %v", whole, err, before+90*time.Millisecond)
	}
	if peak, err := Peak(os.Getpid()); err != nil || peak < 1<<20 || peak > 1<<34 {
		t.Errorf("Peak() = %d, %v, want 1 MiB at least, 16 GiB at most", peak, err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if pid := Listener("amqp://guest:guest@" + ln.Addr().String() + "/"); pid != os.Getpid() {
		t.Errorf("Listener() = %d, want this process, %d", pid, os.Getpid())
	}
	if pid := Listener("amqp://guest:guest@192.0.2.1:5672/"); pid != 0 {
		t.Errorf("Listener() of another machine = %d, want 0", pid)
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
	before := ReadMachine(0)
	end := begin.Add(200 * time.Millisecond)
	for time.Now().Before(end) {
	}
	after := ReadMachine(0)
	if before == nil || after == nil {
		t.Fatal("ReadMachine() = nil on Linux")
	}
	if busy := after.Others - before.Others; busy < 100*time.Millisecond {
		t.Errorf("the machine was busy for %v while this test was for 200 ms, half of it at least", busy)
	}
	if same := ReadMachine(time.Hour); same.Others > after.Others-59*time.Minute {
		t.Errorf("an hour of ours leaves %v of %v to others", same.Others, after.Others)
	}
}

// In virtual time the processors' time says nothing of the run: a run of five
// seconds may have taken any time, by chance five seconds.
func TestMachineIsUnknownInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if m := ReadMachine(0); m != nil {
			t.Errorf("ReadMachine() = %+v in virtual time, want nil", m)
		}
	})
}
