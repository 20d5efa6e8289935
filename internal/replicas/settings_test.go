package replicas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDifferingSettings: settings are compared among all that answer. A kind of program that was
// not asked is as the others heard.
func TestDifferingSettings(t *testing.T) {
	t.Parallel()
	port := func(name, answer string) Replica {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/settings" || answer == "" {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprint(w, answer)
		}))
		t.Cleanup(s.Close)
		return Replica{Name: name, URL: s.URL}
	}
	const others = `{"program":"dispatcher","protocol":2,"limit_text":80,"limit_media":10}`
	core := port("c1", `{"program":"core","protocol":2,"limit_text":300,"limit_media":10,"differ":[]}`)
	heard := port("c2", `{"program":"core","protocol":2,"limit_text":300,"limit_media":10,"differ":[`+others+`]}`)
	same := port("d1", `{"program":"dispatcher","protocol":2,"limit_text":300,"limit_media":10,"differ":[]}`)
	other := port("d2", others)
	old, away := port("d3", ""), Replica{Name: "gone", URL: "http://127.0.0.1:1"}
	for _, row := range []struct {
		name              string
		cores, dispatcher []Replica
		want              string
	}{
		{"nobody", nil, nil, ""},
		{"equal", []Replica{core, away}, []Replica{same, old}, ""},
		{"one dispatcher", []Replica{core}, []Replica{same, other}, "LIMIT_TEXT=300 LIMIT_MEDIA=10, protocol 2: core c1, dispatcher d1; LIMIT_TEXT=80 LIMIT_MEDIA=10, protocol 2: dispatcher d2"},
		{"heard", []Replica{heard, heard}, nil, "LIMIT_TEXT=300 LIMIT_MEDIA=10, protocol 2: core c2, core c2; LIMIT_TEXT=80 LIMIT_MEDIA=10, protocol 2: a dispatcher"},
		{"heard before", []Replica{heard}, []Replica{same}, ""}, // the dispatcher that differed is gone
	} {
		f := Fleet{Client: Client{HTTP: http.DefaultClient}, Core: row.cores, Dispatchers: row.dispatcher}
		if got := f.DifferingSettings(t.Context()); got != row.want {
			t.Errorf("%s: DifferingSettings() = %q, want %q", row.name, got, row.want)
		}
	}
}
