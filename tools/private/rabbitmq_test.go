package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSupported(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"4.0.5": true, "4.3.0-1": true, "10.1.0": true, "3.13.7": false, "3.10.8-1.1+deb12u1": false, "": false, "x": false,
	} {
		if got := Supported(version); got != want {
			t.Errorf("Supported(%q) = %v, want %v", version, got, want)
		}
	}
}

// A server on PATH is taken if it is new enough, by the name of its plugin.
func TestInstalled(t *testing.T) {
	root := t.TempDir()
	server := func(version string) (bin string) {
		bin = filepath.Join(root, version, "sbin")
		for _, dir := range []string{bin, filepath.Join(root, version, "plugins", "rabbit-"+version), filepath.Join(root, version, "plugins", "rabbit_common-"+version)} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(bin, "rabbitmq-server"), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return bin
	}
	for _, c := range []struct{ path, bin, err string }{
		{server("4.1.2"), filepath.Join(root, "4.1.2", "sbin"), ""},
		{server("3.13.7"), "", "rabbitmq-server 3.13.7 is installed, and 4.0 or later is needed"},
		{root, "", "rabbitmq-server is not installed"},
	} {
		t.Setenv("PATH", c.path)
		bin, err := installed(filepath.Join(root, "none"))
		if bin != c.bin || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("installed() with PATH %s = %q, %v, want %q, %q", c.path, bin, err, c.bin, c.err)
		}
	}
}

// RABBITMQ_SERVER comes before whatever is installed; a wrong one is named.
func TestNamedServer(t *testing.T) {
	server := filepath.Join(t.TempDir(), "rabbitmq-server")
	if err := os.WriteFile(server, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{server: filepath.Dir(server), server + "x": ""} {
		t.Setenv(serverVariable, path)
		bin, err := RabbitMQ(t.Context(), t.Output())
		if bin != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), serverVariable+": ") {
			t.Errorf("RabbitMQ() with %s = %q, %v, want %q", path, bin, err, want)
		}
	}
}
