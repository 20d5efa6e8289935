package fakeapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

func TestControl(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	tests := []struct {
		method, path, body string
		status             int
		want               string // part of the body
	}{
		{"GET", "/healthz", "", 200, "ok"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m_1","recipients":["7","8"]}`, 200, `{"announced":2}`},
		{"POST", "/ledger/expect", `{"page":"1","ids":["x","y","z"]}`, 200, `{"announced":3}`},
		{"POST", "/ledger/expect", `{"page":"1"}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m"}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m","recipients":["1"],"ids":["x"]}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","idz":["x"]}`, 400, "idz"},
		{"POST", "/ledger/excuse", `{"ids":["x","unknown"]}`, 200, `{"excused":1}`},
		{"POST", "/1/messages?access_token=token-1", fakeapitest.Text("7", "1/m_1/7"), 200, "m_"},
		{"GET", "/ledger", "", 200, `"expected":4,"accepted":1,"calls":1,"refused":0,"rejected":0,"errors":0,"lost":3`},
		{"GET", "/ledger?pages=0", "", 200, `"answers":{}}`},
		{"GET", "/ledger?page=2", "", 200, `"answers":{}}`},
		{"GET", "/ledger?seconds=x", "", 400, "seconds"},
		{"POST", "/control", `{"text":{"per_second":0}}`, 400, "text: limit 0"},
		{"POST", "/control", `{"text":{"other_app":2e9}}`, 400, "text.other_app: must be 0 to 1000000"},
		{"POST", "/control", `{"text":{"per_second":"fast"}}`, 400, `"decode settings: text.per_second has the wrong type, string"`},
		{"POST", "/control", `[]`, 400, `"decode settings: the body has the wrong type, array"`},
		{"POST", "/control", `{"latency":"soon"}`, 400, "decode settings: latency: latency"},
		{"POST", "/control", `{"faults":{"timeout_after":"soon"}}`, 400, "decode settings: faults.timeout_after: "},
		{"POST", "/control", `{"inject":[{"code":"613"},{"hang":"soon"}]}`, 400, "decode settings: inject[1].hang: "},
		{"POST", "/control", `{"pages":{"5":{"until":"soon"}}}`, 400, "decode settings: pages.5.until: "},
		{"POST", "/ledger/announce", `{"events":[{"page":"1","due":"soon","ids":[{"id":"x"}]}]}`, 400, `{"error":"events[0].due: `},
		{"POST", "/control", `{"fault":{}}`, 400, "fault"},
		{"POST", "/control", `{"faults":{"timeout":2}}`, 400, "faults.timeout"},
		{"POST", "/control", `{} {}`, 400, "after"},
		{"POST", "/control", `{"text":{"per_second":50},"latency":"fixed:1ms","pages":{"5":{"text":9,"state":"revoked"}}}`, 200, `"per_second":50`},
		{"POST", "/control", `{"latency":"none","pages":{"6":{"text":8}}}`, 200, `"5":{"text":9,"state":"revoked"},"6":{"text":8}`},
		{"POST", "/control", `{"pages":{"5":null,"6":{"state":"asleep"}}}`, 400, `pages.6: state`},
		{"POST", "/control", `{"inject":[{"code":"999"}]}`, 400, "inject[0].code"},
		{"GET", "/control", "", 200, `"latency":"none"`},
		{"POST", "/ledger/reset", "", 200, "ok"},
		{"GET", "/ledger", "", 200, `"expected":0,"accepted":0`},
	}
	for _, tc := range tests {
		r := a.Ask(tc.method, tc.path, tc.body)
		if r.Status != tc.status || !strings.Contains(r.Body, tc.want) {
			t.Errorf("%s %s %s = %d %s, want %d and %s", tc.method, tc.path, tc.body, r.Status, r.Body, tc.status, tc.want)
		}
	}
	if got := a.Settings(); got.Text.PerSecond != 50 || got.Media.PerSecond != 10 {
		t.Errorf("settings = %+v, want text 50 and media 10", got)
	}
}

// TestInjectionKeepsItsCount: changing something else does not begin a counted
// injection again.
func TestInjectionKeepsItsCount(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	if err := a.Patch([]byte(`{"inject":[{"code":"551","count":2}]}`)); err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 4 {
		got = append(got, a.Send("42", "").Error(t).Code)
		if err := a.Patch([]byte(`{"latency":"none"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{551, 551, 0, 0}, got); diff != "" {
		t.Errorf("codes: -want +got\n%s", diff)
	}
}

// TestInjectionBeginsAgain: posting a counted injection again has its effect again.
func TestInjectionBeginsAgain(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	var got []int
	for range 2 {
		if err := a.Patch([]byte(`{"inject":[{"code":"551","count":1}]}`)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got = append(got, a.Send("42", "").Error(t).Code)
		}
	}
	if diff := cmp.Diff([]int{551, 0, 551, 0}, got); diff != "" {
		t.Errorf("codes: -want +got\n%s", diff)
	}
}

// TestInjectionIsReplaced: a new list of injections takes over nothing of the
// old one.
func TestInjectionIsReplaced(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	for _, patch := range []string{`{"inject":[{"code":"551","page":"9","count":2}]}`, `{"inject":[{"code":"613"}]}`} {
		if err := a.Patch([]byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]fakeapi.Inject{{Code: "613"}}, a.Settings().Inject); diff != "" {
		t.Errorf("injections: -want +got\n%s", diff)
	}
	if err := a.Patch([]byte(`{"inject":null}`)); err != nil || len(a.Settings().Inject) != 0 {
		t.Errorf("injections after null = %+v %v, want none", a.Settings().Inject, err)
	}
	if err := a.Patch([]byte(`{"inject":[{"code":"613","count":-1}]}`)); err == nil || !strings.Contains(err.Error(), "inject[0].count") {
		t.Errorf("Patch with a negative count = %v, want it to name inject[0].count", err)
	}
}

// TestSettingsAreCopies: neither the settings that were applied nor those that
// were read can be changed behind the platform's back.
func TestSettingsAreCopies(t *testing.T) {
	t.Parallel()
	s := fakeapi.DefaultSettings()
	s.Pages = map[string]*fakeapi.PageSettings{"1": {Text: 5}}
	s.Status = map[fakeapi.Code]int{"613": 429}
	a := fakeapitest.New(t, fakeapi.Config{Settings: &s})
	read := a.Settings()
	for _, mine := range []fakeapi.Settings{s, read} {
		mine.Pages["1"].State = fakeapi.Revoked
		mine.Pages["2"] = &fakeapi.PageSettings{Text: 1}
		mine.Status["613"] = 599
	}
	got := a.Settings()
	if diff := cmp.Diff(map[string]*fakeapi.PageSettings{"1": {Text: 5}}, got.Pages); diff != "" || got.Status["613"] != 429 {
		t.Errorf("settings were changed from outside: status %d, pages -want +got\n%s", got.Status["613"], diff)
	}
}

// TestReset: the answers belong to the run that the ledger is emptied of.
func TestReset(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	a.Send("error-551", "")
	a.Ask("POST", "/ledger/reset", "")
	if got := a.Answers(); len(got) != 0 {
		t.Errorf("answers after reset = %v, want none", got)
	}
}
