package report

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"chatclub/internal/service"
)

// here says what this program was built from, and on which machine it runs. Only Linux
// tells all of it.
func here() []Parameter {
	kib, _, _ := strings.Cut(procField("/proc/meminfo", "MemTotal"), " ")
	n, _ := strconv.Atoi(kib) // 0 where it is not known
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return []Parameter{
		{"built from", strings.TrimPrefix(service.Version("loadtest"), "loadtest ")},
		{"machine", fmt.Sprintf("%s/%s, %d CPUs, %s, %d GiB of memory, kernel %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0),
			procField("/proc/cpuinfo", "model name"), n>>20, bytes.TrimSpace(kernel))},
	}
}

// procField finds "name : value" in a file of /proc; empty where it is not there.
func procField(path, name string) string {
	raw, _ := os.ReadFile(path)
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
