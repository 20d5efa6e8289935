package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Table is what all processes have used at one moment. To read it takes some
// milliseconds, so that who asks of several processes reads it once.
type Table struct {
	stats    map[int]stat
	children map[int][]int
}

// ReadTable reads all of /proc.
func ReadTable() (*Table, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read CPU time: %w", err)
	}
	t := &Table{stats: make(map[int]stat), children: make(map[int][]int)}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		if s, err := readStat(pid); err == nil { // otherwise it has ended meanwhile
			t.stats[pid] = s
			t.children[s.parent] = append(t.children[s.parent], pid)
		}
	}
	return t, nil
}

// Tree is the CPU time of a process and of all that descend from it, those that
// have ended and were waited for included. It serves programs that work in several
// processes, as PostgreSQL does.
func (t *Table) Tree(pid int) (sum time.Duration, err error) {
	if _, ok := t.stats[pid]; !ok {
		return 0, fmt.Errorf("read CPU time: there is no process %d", pid)
	}
	for left := []int{pid}; len(left) > 0; {
		next := left[len(left)-1]
		left = append(left[:len(left)-1], t.children[next]...)
		sum += t.stats[next].own + t.stats[next].waited
	}
	return sum, nil
}

// Tree reads a table for one process.
func Tree(pid int) (time.Duration, error) {
	t, err := ReadTable()
	if err != nil {
		return 0, err
	}
	return t.Tree(pid)
}

// stat is of one process.
type stat struct {
	parent      int
	own, waited time.Duration // CPU time of its own, and of its children that were waited for
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, fmt.Errorf("read CPU time: %w", err)
	}
	fields := fieldsOf(b)
	if len(fields) < 15 {
		return stat{}, errForm
	}
	var s stat
	if s.parent, err = strconv.Atoi(fields[1]); err != nil {
		return stat{}, fmt.Errorf("read CPU time: %w", err)
	}
	if s.own, err = sumTicks(fields[11:13]); err != nil { // utime and stime, the 14th and 15th of all
		return stat{}, err
	}
	s.waited, err = sumTicks(fields[13:15]) // cutime and cstime
	return s, err
}

var errForm = errors.New("read CPU time: /proc/PID/stat has another form")

// fieldsOf returns the fields of /proc/PID/stat from the third on. The second, the
// program's name, may hold anything, even ") ".
func fieldsOf(b []byte) []string {
	_, rest, _ := bytes.Cut(b[max(0, bytes.LastIndexByte(b, ')')):], []byte(" "))
	return strings.Fields(string(rest))
}

// sumTicks adds up times in the kernel's steps.
func sumTicks(fields []string) (sum time.Duration, err error) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		sum += time.Duration(n) * time.Second / ticks
	}
	return sum, nil
}
