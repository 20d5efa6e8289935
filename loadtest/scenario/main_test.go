package scenario_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain keeps -short small: the race detector makes five bytes of one.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		debug.SetGCPercent(25)
	}
	os.Exit(m.Run())
}
