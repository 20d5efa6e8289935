// Package proc reads what other processes have used so far: CPU time and memory. It
// reads /proc, which only Linux has, and which counts CPU time in steps of 10 ms.
package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

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
