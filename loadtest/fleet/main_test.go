package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"chatclub/internal/queue/rabbit/rabbittest"
)

// TestMain is a child process, or a program of a peer, when a fleet under test
// starts this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch kind := os.Args[1]; kind {
		case KindDispatcher, KindIngress, KindPlatform:
			os.Exit(child(kind))
		}
	}
	if len(os.Args) == 4 && os.Args[1] == fakePeer {
		os.Exit(runFakePeer(os.Args[2], os.Args[3]))
	}
	flag.Parse()
	if testing.Short() { // the race detector makes five bytes of one
		debug.SetGCPercent(25)
	}
	rabbittest.Main(m)
}

func child(kind string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Child(ctx, kind, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
