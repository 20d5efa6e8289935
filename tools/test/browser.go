package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"chatclub/tools/private"
	"chatclub/tools/program"
)

// browser returns the setting that names a Chromium: as it is in CHROMIUM, or one
// on PATH. As root on Debian it installs the package first. Without a Chromium
// the setting is empty, and the tests that need it say so.
func browser(ctx context.Context, log io.Writer) (env string) {
	const variable = "CHROMIUM="
	if path := os.Getenv("CHROMIUM"); path != "" {
		return variable + path
	}
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	path, err := program.Find(names...)
	if err != nil && os.Geteuid() == 0 {
		if err = installBrowser(ctx, log); err == nil {
			path, err = program.Find(names...)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(log, "test: no Chromium: install the package chromium, or name the program in CHROMIUM (%v)\n", err)
	}
	return variable + path
}

func installBrowser(ctx context.Context, log io.Writer) error {
	if _, err := program.Find("apt-get"); err != nil {
		return errors.New("neither Chromium nor apt-get is here")
	}
	_, _ = fmt.Fprintln(log, "test: no Chromium here: installing Debian's")
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "chromium"}} {
		if err := private.Apt(ctx, args...); err != nil {
			return fmt.Errorf("apt-get %w", err)
		}
	}
	return nil
}
