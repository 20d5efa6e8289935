package private

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ports differ, and are not of those that are given to a program that asks for any.
func TestPorts(t *testing.T) {
	t.Parallel()
	const n = 50
	ports, err := Ports(n)
	if err != nil || len(ports) != n {
		t.Fatalf("Ports(%d) = %v, %v, want as many", n, ports, err)
	}
	slices.Sort(ports)
	if len(slices.Compact(slices.Clone(ports))) != n || ports[0] < 1024 || ports[n-1] >= 32768 {
		t.Errorf("Ports(%d) = %v, want them to differ, and from 1024 to 32767", n, ports)
	}
}

// A guarded server runs in its folder and takes it with it, once it is told to stop.
func TestGuard(t *testing.T) {
	t.Parallel()
	trace, dir := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, stop, err := Guard(dir, nil, "sh", "-c", `pwd >"$0"`, trace)
	if err != nil {
		t.Fatal(err)
	}
	var ran []byte
	for end := time.Now().Add(time.Minute); len(ran) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		ran, _ = os.ReadFile(trace) // it is not there at first
	}
	if got := strings.TrimSpace(string(ran)); got != dir {
		t.Errorf("the server ran in %q, want %s", got, dir)
	}
	if err := stop.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guardian ended with %v, want nil", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}
