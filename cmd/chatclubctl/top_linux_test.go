package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns a terminal, and what its user reads.
func openTerminal(t *testing.T) (terminal, user *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	user = open("/dev/ptmx")
	var locked, number uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(unsafe.Pointer(value))); err != 0 {
			t.Fatal(err)
		}
	}
	return open(fmt.Sprintf("/dev/pts/%d", number)), user
}

// TestTopOnceOnTerminal: one who asks for one look gets that alone, on a terminal, too.
func TestTopOnceOnTerminal(t *testing.T) {
	t.Parallel()
	terminal, user := openTerminal(t)
	core := metricsPort(t, nil, "# TYPE chatclub_core_copies_total counter\nchatclub_core_copies_total N\n")
	top := tool{environ: map[string]string{"CORE": core.URL}, stdout: terminal, stderr: t.Output()}
	if err := top.run(t.Context(), []string{"top", "-json"}); err != nil {
		t.Errorf("top -json = %v, want nil", err)
	}
	_ = terminal.Close()
	out, _ := io.ReadAll(user) // it ends with EIO: nobody has the terminal open
	var v topView
	if err := json.Unmarshal(out, &v); err != nil || v.Copies == 0 {
		t.Errorf("top -json prints %q, %v, want JSON alone, with copies", out, err)
	}
}
