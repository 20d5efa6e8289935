package private

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chatclub/tools/program"
)

// A whole unpacked tree stays, half of one goes, and where nothing can be unpacked it is said
// why. The system's tools are stood in for: nothing is downloaded.
func TestUnpack(t *testing.T) {
	t.Parallel()
	if info, err := os.Lstat("/lib"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Skip("/lib is no link to /usr/lib here, so nothing is unpacked")
	}
	tools, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	tool := func(name, script string) {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tool("unshare", `echo the reason; exit $NO_MOUNTS`)
	tool("apt-get", `echo "$*" >>"$LOG"
case "$*" in *install*) touch "$ARCHIVES/server.deb" ;; esac`)
	tool("dpkg", `mkdir -p "$3/usr/bin"`)
	run := func(dir, noMounts string) (out string, err error) {
		r, err := program.Run(t.Context(), program.Command{Path: "/bin/sh", Args: []string{"-c", unpackScript, "unpack", dir, "trixie"}, Env: []string{"PATH=" + tools + ":/usr/bin:/bin", "LOG=" + log, "NO_MOUNTS=" + noMounts, "ARCHIVES=" + dir + ".new/archives", "DEBIAN_MIRROR=http://mirror"}})
		return r.Stdout + r.Stderr, err
	}
	dir := filepath.Join(t.TempDir(), "cache", "rabbitmq")
	if out, err := run(dir, "1"); err == nil || !strings.Contains(out, "does not allow mounts (the reason)") {
		t.Errorf("unpack without mounts = %v, %q, want it to say so", err, out)
	}
	if err := os.MkdirAll(dir+".new/half", 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := run(dir, "0"); err != nil {
			t.Fatalf("unpack = %v: %s", err, out)
		}
		for name, want := range map[string]bool{"usr/bin": true, "bin/rabbitmq-server": true, "bin/rabbitmqctl": true, "bin/epmd": true, "half": false, "archives": false} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
				t.Errorf("%s is there: %v, want %v", name, err == nil, want)
			}
		}
	}
	calls, err := os.ReadFile(log)
	if err != nil || bytes.Count(calls, []byte("rabbitmq-server")) != 1 {
		t.Errorf("apt-get was called with %q (%v), want the server once", calls, err)
	}
}
