package private

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"chatclub/tools/program"
)

// release is the first release of Debian with RabbitMQ 4.
const release = "trixie"

// serverVariable names another rabbitmq-server than this machine's, beside its rabbitmqctl.
const serverVariable = "RABBITMQ_SERVER"

//go:embed unpack.sh
var unpackScript string

// RabbitMQ returns the folder of the rabbitmq-server and rabbitmqctl that this machine
// has, or that RABBITMQ_SERVER names. Where they are missing or too old, and this is Debian, it installs the package
// as root. Where that is too old, it unpacks Debian 13's below the user's cache, which
// is done once. It says on log which step takes long.
func RabbitMQ(ctx context.Context, log io.Writer) (bin string, err error) {
	if server := os.Getenv(serverVariable); server != "" {
		if bin = filepath.Dir(server); !Supported(version(bin)) && version(bin) != "" {
			return "", fmt.Errorf("%s: RabbitMQ %s, and 4.0 or later is needed", serverVariable, version(bin))
		}
		if _, err := os.Stat(server); err != nil { //nolint:gosec // whoever runs the tests names it
			return "", fmt.Errorf("%s: %w", serverVariable, err)
		}
		return bin, nil
	}
	bin, missing := installed(packaged)
	if missing == nil {
		return bin, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w; no folder to unpack another: %w", missing, err)
	}
	dir := filepath.Join(cache, "chatclub", "rabbitmq-"+release)
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "bin"), nil
	}
	if _, err := program.Find("apt-get"); err != nil {
		return "", missing
	}
	if os.Geteuid() == 0 {
		if err := install(ctx, log); err != nil {
			return "", fmt.Errorf("%w; apt-get: %w", missing, err)
		}
		if bin, err := installed(packaged); err == nil {
			return bin, nil
		}
	}
	_, _ = fmt.Fprintf(log, "%v; unpacking Debian's of %s into %s (once, some 200 MB)\n", missing, release, dir)
	if _, err := program.Run(ctx, program.Command{Path: "/bin/sh", Args: []string{"-c", unpackScript, "unpack", dir, release}}); err != nil {
		return "", fmt.Errorf("%w; unpack Debian's of %s: %w", missing, release, err)
	}
	return filepath.Join(dir, "bin"), nil
}

// install installs this system's package rabbitmq-server, if it is new enough.
func install(ctx context.Context, log io.Writer) error {
	if err := Apt(ctx, "update"); err != nil {
		return err
	}
	show, err := program.Run(ctx, program.Command{Path: "apt-cache", Args: []string{"--no-all-versions", "show", "rabbitmq-server"}})
	_, version, found := strings.Cut("\n"+show.Stdout, "\nVersion: ")
	if err != nil || !found || !Supported(version) {
		return nil // there is no such package, or it is too old
	}
	_, _ = fmt.Fprintln(log, "no RabbitMQ 4 here; running apt-get install -y rabbitmq-server")
	allow, err := forbidServices()
	if err != nil {
		return err
	}
	defer allow()
	return Apt(ctx, "install", "-y", "--no-install-recommends", "rabbitmq-server")
}

const (
	// aptTime is the time that apt-get waits for others: the tests of another package
	// may install at the same time.
	aptTime  = 5 * time.Minute
	aptPause = 2 * time.Second
)

// Apt runs apt-get, once no other one runs.
func Apt(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, aptTime+10*time.Minute)
	defer cancel()
	for began := time.Now(); ; {
		lock := fmt.Sprintf("DPkg::Lock::Timeout=%.0f", aptTime.Seconds())
		r, err := program.Run(ctx, program.Command{
			Path: "apt-get", Args: append([]string{"-q", "-o", lock}, args...),
			Env: append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"),
		})
		// For the lock of its lists it does not wait by itself.
		if err == nil || !strings.Contains(r.Stdout+r.Stderr, "Could not get lock") || time.Since(began) > aptTime {
			if err != nil {
				err = fmt.Errorf("%s: %w", args[0], err)
			}
			return err
		}
		select {
		case <-time.After(aptPause):
		case <-ctx.Done():
		}
	}
}

// policy is the script that Debian's packages ask whether they may start their service.
const policy = "/usr/sbin/policy-rc.d"

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
