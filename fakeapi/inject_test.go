package fakeapi_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/ledger"
)

// Calls to one person hang and are not accepted; those to others are answered.
func TestInjectedHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		if err := a.Patch([]byte(`{"latency":"none","inject":[{"hang":"20s","page":"1","recipient":"42"}]}`)); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"42", "43"} {
			a.Ledger().Announce("1", ledger.Expected{ID: "1/m/" + to, Recipient: to})
			begin := time.Now()
			_, err := a.Try("POST", "/1/messages", fakeapitest.Text(to, "1/m/"+to), fakeapitest.Bearer("1"))
			took := time.Since(begin)
			if sick := to == "42"; sick != errors.Is(err, syscall.ECONNRESET) || sick != (took == 20*time.Second) {
				t.Errorf("call to %s = %v after %v, want it to hang for 20s if it is 42", to, err, took)
			}
		}
		want := ledger.Counts{Events: 2, Expected: 2, Accepted: 1, Calls: 1, Errors: 1, Lost: 1, Pending: 1}
		if diff := cmp.Diff(want, a.Ledger().Totals()); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
	})
}

// An injection is an answer or a hang, and says which it is not.
func TestInjectedHangIsChecked(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	for _, in := range []string{`{"hang":"-1s"}`, `{"hang":"49h"}`, `{"hang":"1s","code":"2"}`} {
		if err := a.Patch([]byte(`{"inject":[` + in + `]}`)); err == nil || !strings.Contains(err.Error(), "inject[0].hang") {
			t.Errorf("Patch with %s = %v, want it to name inject[0].hang", in, err)
		}
	}
}
