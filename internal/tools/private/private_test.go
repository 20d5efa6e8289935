package private

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Ports are free, and differ.
func TestPorts(t *testing.T) {
	t.Parallel()
	const n = 50
	ports, err := Ports(n)
	if err != nil || len(ports) != n {
		t.Fatalf("Ports(%d) = %v, %v, want as many", n, ports, err)
	}
	if slices.Sort(ports); len(slices.Compact(slices.Clone(ports))) != n {
		t.Errorf("Ports(%d) = %v, want them to differ", n, ports)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(ports[0]))
	if err != nil {
		t.Fatalf("listen at the first: %v", err)
	}
	_ = l.Close()
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
	if err := stop.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guardian ended with %v, want nil", err)
	}
	if b, err := os.ReadFile(trace); err != nil || strings.TrimSpace(string(b)) != dir {
		t.Errorf("the server ran in %q (%v), want %s", b, err, dir)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}
