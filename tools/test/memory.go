package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lookEvery is the time between two looks at the memory. A test binary lives for
// seconds.
const lookEvery = time.Second

// watchMemory measures the memory of this process and all below it. The function that
// it returns ends that, and tells the most that it was at a time, with the load of the
// machine.
func watchMemory() func() string {
	quit, ended := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for {
			select {
			case <-quit:
				ended <- most
				return
			case <-time.After(lookEvery):
				most = max(most, treeMemory("/proc", os.Getpid()))
			}
		}
	}()
	return func() string {
		close(quit)
		most := <-ended
		if most == 0 {
			return "peak memory unknown"
		}
		load, _ := os.ReadFile("/proc/loadavg")
		first, _, _ := bytes.Cut(load, []byte(" "))
		return fmt.Sprintf("peak memory %.1f GB, load %s", float64(most)/1e9, first)
	}
}

// treeMemory returns the bytes of a process and all below it, by their proportional
// set size: shared memory is counted once. It is 0 where the system has none.
func treeMemory(proc string, root int) (sum int64) {
	children := make(map[int][]int)
	stats, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // behind the program's name: state, parent
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		sum += proportional(filepath.Join(proc, strconv.Itoa(todo[0]), "smaps_rollup"))
		todo = append(todo, children[todo[0]]...)
	}
	return sum
}

func proportional(name string) int64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64)
			return kB << 10
		}
	}
	return 0
}
