package proc

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"chatclub/internal/machine"
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
	whole, err := machine.OwnCPU()
	if err != nil || whole < before+90*time.Millisecond {
		t.Errorf("OwnCPU() = %v, %v, want at least %v", whole, err, before+90*time.Millisecond)
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

// Tree has a process's children in it, those that have ended included.
func TestTreeHasChildren(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	// The shell's child works and ends, its grandchild lives on.
	const script = `(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo done; sleep 60 & wait`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	alone, err := CPU(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Tree(cmd.Process.Pid)
	if err != nil || all < alone+20*time.Millisecond {
		t.Errorf("Tree() = %v, %v of a shell that has %v by itself, want 20 ms more at least: its child counted to 100,000", all, err, alone)
	}
	ours, err := Tree(os.Getpid())
	if err != nil || ours < all {
		t.Errorf("Tree() of this process = %v, %v, want its grandchild's %v in it", ours, err, all)
	}
	if _, err := Tree(1 << 30); err == nil {
		t.Error("Tree() of no process = nil error, want one")
	}
}

// A server's port is its scheme's where its address has none.
func TestHostPort(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"amqp://u:p@mq/": "mq:5672", "redis://127.0.0.1/0": "127.0.0.1:6379", "postgres://u@[::1]/db": "[::1]:5432",
		"postgresql://db": "db:5432", "redis://:p@r:7000": "r:7000",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := HostPort(u); got != want {
			t.Errorf("HostPort(%s) = %s, want %s", address, got, want)
		}
	}
}
