// Command loadtest drives the system at a set pace, lets fakeapi judge it, and
// writes down what was found, side by side with other ways of sharing a limit:
//
//	loadtest list
//	loadtest run SCENARIO… [flags]
//	loadtest compare SCENARIO [flags]
//	loadtest faults [flags]
//
// It exits with 1 if messages were lost, or an expectation of this project's
// own dispatcher was not met, with 2 for wrong usage, and with 3 if the runs prove
// nothing.
package main

import (
	"context"
	"os"

	"chatclub/internal/service"
)

func main() {
	ctx, stop := service.SignalContext(context.Background())
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}
