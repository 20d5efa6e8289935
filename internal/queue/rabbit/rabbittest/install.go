package rabbittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
)

// policy is where Debian's packages ask whether they may start their service.
const policy = "/usr/sbin/policy-rc.d"

// installLocal installs the rabbitmq-server package with apt-get, as root
// only, and starts a private server of it.
func installLocal(ctx context.Context, log io.Writer) (instance, error) {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return nil, errors.New("apt-get install needs Debian or Ubuntu, and root")
	}
	if _, _, err := findLocal(); err == nil {
		return nil, errors.New("installing it again would not help")
	}
	_, _ = fmt.Fprintln(log, "rabbittest: no RabbitMQ here; running apt-get install -y rabbitmq-server")
	allow, err := forbidServices()
	if err != nil {
		return nil, fmt.Errorf("install rabbitmq-server: %w", err)
	}
	defer allow()
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-y", "-q", "--no-install-recommends", "rabbitmq-server"},
	} {
		// Other packages' tests may install at the same time.
		args = append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("apt-get %s: %w: %s", args[2], err, bytes.TrimSpace(out[max(0, len(out)-500):]))
		}
	}
	return startLocal(ctx, log)
}

// forbidServices keeps the package from starting its service, which the tests
// do not use. A policy that is there already stays as it is.
func forbidServices() (allow func(), err error) {
	f, err := os.OpenFile(policy, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755) //nolint:gosec // it must be executable
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(policy)
		return nil, err
	}
	return func() { _ = os.Remove(policy) }, nil
}
