package fakeapi

import (
	"testing"
	"time"

	"chatclub/fakeapi/ledger"
)

// TestOlderSettingsComeLate: a call that read the settings before they were
// changed, and is judged after others, does not bring the old limit back. That
// would forget the calls that the new limit has counted.
func TestOlderSettingsComeLate(t *testing.T) {
	t.Parallel()
	a, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	older := a.settings.load()
	if err := a.Patch([]byte(`{"text":{"algorithm":"sliding-log","per_second":1},"app_per_second":2}`)); err != nil {
		t.Fatal(err)
	}
	set, p, now := a.settings.load(), a.pages.get("1", a.ledger), time.Unix(1_700_000_000, 0)
	if got := p.admit(now, set, ledger.Text, 0); got != nil {
		t.Fatalf("admit the first call = %s, want nil", got.name())
	}
	p.admit(now, older, ledger.Text, 0)
	if got := p.admit(now, set, ledger.Text, 0); got != errPageLimit {
		t.Error("admit the second call of a limit of 1 = accepted, want 613")
	}
	for range 2 {
		a.app.arrive(now, set)
	}
	older.Block.ErrorRatio = 1 // so that it is counted although it has no limit
	a.app.arrive(now, older)
	if _, got := a.app.arrive(now, set); got != errAppLimit {
		t.Error("arrive as the fourth call of a limit of 2 = accepted, want 4")
	}
}
