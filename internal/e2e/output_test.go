package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"chatclub/tools/program"
)

// TestOutputNobodyReads: a program whose output is full, or has lost its reader, serves, and
// ends in order when its terminal is closed.
func TestOutputNobodyReads(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, read, write *os.File){
		"a full pipe": func(t *testing.T, _, write *os.File) {
			raw, err := write.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			fill := func(fd uintptr) bool { // to the last byte; the pipe is one that does not wait here
				for n, err := 1, error(nil); n > 0 && err == nil; n, err = syscall.Write(int(fd), []byte{'x'}) {
				}
				return true
			}
			if err := raw.Write(fill); err != nil {
				t.Fatal(err)
			}
		},
		"no reader": func(t *testing.T, read, _ *os.File) {
			if err := read.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			defer write.Close()
			prepare(t, read, write)
			admin := freeAddr(t)
			cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "webhook"))
			cmd.Env = program.Environ(map[string]string{
				"ADMIN_ADDR": admin, "HTTP_ADDR": freeAddr(t), "LOG_LEVEL": "debug",
				"AMQP_URL": "amqp://127.0.0.1:1", "APP_SECRET": "x", "VERIFY_TOKEN": "x",
			})
			cmd.Stderr = write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			p := &process{admin: admin}
			program.Eventually(t, "webhook is alive", func() error {
				select {
				case err := <-ended:
					t.Fatalf("webhook ended: %v", err)
				default:
				}
				return p.status("/healthz")
			})
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("webhook after SIGHUP: %v, want exit code 0", err)
				}
			case <-time.After(program.Patience):
				t.Errorf("webhook still runs %v after SIGHUP", program.Patience)
			}
		})
	}
}
