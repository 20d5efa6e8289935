package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// browser returns the setting that names a Chromium: as it is in CHROMIUM, or one
// on PATH. As root on Debian it installs the package first. Without a Chromium
// the setting is empty, and the tests that need it say so.
func browser(ctx context.Context, log io.Writer) (env string) {
	const variable = "CHROMIUM="
	if path := os.Getenv("CHROMIUM"); path != "" {
		return variable + path
	}
	path, err := findBrowser()
	if err != nil && os.Geteuid() == 0 {
		if err = installBrowser(ctx, log); err == nil {
			path, err = findBrowser()
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(log, "test: no Chromium: %v\n", err)
	}
	return variable + path
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("install the package chromium, or name the program in CHROMIUM")
}

func installBrowser(ctx context.Context, log io.Writer) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("neither Chromium nor apt-get is here")
	}
	_, _ = fmt.Fprintln(log, "test: no Chromium here: installing Debian's")
	for _, args := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", "chromium"}} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
