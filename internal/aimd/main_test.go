package aimd_test

import (
	"testing"

	"go.uber.org/goleak"

	"chatclub/internal/aimd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLimiter(t testing.TB, c aimd.Config) *aimd.Limiter {
	t.Helper()
	l, err := aimd.New(c)
	if err != nil {
		t.Fatalf("New(%+v) = %v, want a limiter", c, err)
	}
	return l
}
