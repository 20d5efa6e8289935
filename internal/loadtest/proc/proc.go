// Package proc reads what processes, and the machine as a whole, have used so
// far: CPU time and memory. A process's own CPU time is known on every Unix, to
// the microsecond; the rest is read from /proc, which only Linux has, and which
// counts CPU time in steps of 10 ms.
package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Self is this process's CPU time so far.
func Self() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// ticks is how the kernel counts CPU time for everybody to read: USER_HZ, which
// is 100 on every Linux that Go runs on.
const ticks = 100

// CPU is the CPU time of a process so far, its ended children left out.
func CPU(pid int) (time.Duration, error) {
	s, err := readStat(pid)
	return s.own, err
}

// Memory is what a process holds of the machine's memory, in bytes.
func Memory(pid int) (int64, error) { return memory(pid, "VmRSS:") }

// Peak is the most of it that the process has held.
func Peak(pid int) (int64, error) { return memory(pid, "VmHWM:") }

func memory(pid int, field string) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), field)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %w", err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("read memory: no %s", field)
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

// Machine is what the processors of the whole machine have done so far.
type Machine struct {
	Others time.Duration // had by processes that are not part of the run
	All    time.Duration // had or idle, of all processors together
}

// MostOthers is the share of the processors that processes besides the run may have
// had: with more, whose turn it was decides about latencies and costs.
const MostOthers = 0.25

// OthersSince is that share since before; 0 where no time has passed.
func (m Machine) OthersSince(before Machine) float64 {
	if m.All == before.All {
		return 0
	}
	return (m.Others - before.Others).Seconds() / (m.All - before.All).Seconds()
}

// ReadMachine is nil where the system does not tell, and in virtual time, in
// which the processors' time says nothing. ours is what the run's own processes
// have had.
func ReadMachine(ours time.Duration) *Machine {
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
	m := Machine{Others: -ours}
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil
		}
		d := time.Duration(n) * time.Second / ticks
		m.All += d
		if i != 3 && i != 4 { // neither idle nor waiting for a disk
			m.Others += d
		}
	}
	return &m
}
