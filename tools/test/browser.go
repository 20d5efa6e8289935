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

// browser returns the setting that names a Chromium. As root on Debian it installs one
// first. Without a Chromium the setting is empty, and the tests that need it say so.
func browser(ctx context.Context, log io.Writer) (env string) {
	path, err := program.Browser()
	if err != nil && os.Geteuid() == 0 {
		if err = installBrowser(ctx, log); err == nil {
			path, err = program.Browser()
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(log, "test: %v\n", err)
	}
	return "CHROMIUM=" + path
}

func installBrowser(ctx context.Context, log io.Writer) error {
	if _, err := program.Find("apt-get"); err != nil {
		return errors.New("neither Chromium nor apt-get is here")
	}
	_, _ = fmt.Fprintln(log, "test: no Chromium here: installing Debian's")
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "chromium-headless-shell"}} {
		if err := private.Apt(ctx, args...); err != nil {
			return fmt.Errorf("apt-get %w", err)
		}
	}
	return nil
}
