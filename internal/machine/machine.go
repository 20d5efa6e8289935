// Package machine reads how the processors of this machine were used: by this
// process, and by all others. A figure that was measured while others had them is
// theirs. The others' time is read from /proc, which only Linux has.
package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is the number of ticks in a second of the CPU times that the kernel shows:
// USER_HZ, which is 100 on every Linux that Go runs on.
const ticks = 100

// OwnCPU is this process's CPU time so far.
func OwnCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// virtual reports whether this program's time is not the machine's, as in a test
// whose time passes when nothing is left to do.
func virtual() bool {
	var kernel syscall.Timeval
	if err := syscall.Gettimeofday(&kernel); err != nil {
		return false
	}
	return time.Since(time.Unix(kernel.Unix())).Abs() > time.Second
}

// Use is the processor time of the whole machine so far.
type Use struct {
	Busy   time.Duration // had by all processes
	Others time.Duration // of it, by processes that are not part of the run
	All    time.Duration // had or idle, of all processors together
}

// MostOthers is the share of the processors that processes besides the run may have
// had: with more, whose turn it was decides about latencies and costs.
const MostOthers = 0.25

// OthersSince is that share since before; 0 where no time has passed.
func (u Use) OthersSince(before Use) float64 {
	if u.All == before.All {
		return 0
	}
	return (u.Others - before.Others).Seconds() / (u.All - before.All).Seconds()
}

// Read is nil where the system does not tell, and in virtual time, in
// which the processors' time says nothing. ours is what the run's own processes
// have had.
func Read(ours time.Duration) *Use {
	if virtual() {
		return nil
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return nil
	}
	var u Use
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil
		}
		d := time.Duration(n) * time.Second / ticks
		u.All += d
		if i != 3 && i != 4 { // neither idle nor waiting for a disk
			u.Busy += d
		}
	}
	u.Others = u.Busy - ours
	return &u
}
