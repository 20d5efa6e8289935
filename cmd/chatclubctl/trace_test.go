package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/dispatch"
)

// messagesPort is a dispatcher's admin port that knows these messages, whatever it is asked for.
func messagesPort(t *testing.T, know dispatch.Messages) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("id"); r.URL.Path != "/messages" || id != "1/m1" && id != "1/m1/8" && id != "order-17" && id != "m2" && id != "1/m2" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(know)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestTrace: one id leads to the knowledge of core and all dispatchers. One that does not
// answer is named.
func TestTrace(t *testing.T) {
	t.Parallel()
	a := messagesPort(t, dispatch.Messages{SentSince: at(9), Messages: []dispatch.MessageStatus{
		{ID: "1/m1/8", State: "sent", Attempt: 2, SentAt: at(10)},
	}})
	b := messagesPort(t, dispatch.Messages{SentSince: at(8), Messages: []dispatch.MessageStatus{
		{ID: "1/m1/9", State: "waiting", Queue: "x.lane.01.2", Attempt: 1},
	}})
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": a.URL + "," + b.URL}
	nameA, nameB := strings.TrimPrefix(a.URL, "http://"), strings.TrimPrefix(b.URL, "http://")
	for _, id := range []string{"m1", "1/m1"} {
		out, err := call(t, environ, "trace", id)
		got := strings.Join(fields(out), "\n")
		for _, want := range []string{
			"1/m1 received by core at 20",
			" from 7 in room 1; 0 copies are not all queued yet\n", // newCore has received it, and nothing more
			"1/m1/8 sent " + nameA + " - 2026-01-02T10:00:00Z 2\n" +
				"1/m1/9 waiting " + nameB + " x.lane.01.2 - 1\n",
			"sent since 2026-01-02T09:00:00Z",
		} {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("trace %s prints %v\n%s\nwant in it\n%s", id, err, got, want)
			}
		}
	}
	delete(environ, "CORE")
	if out, err := call(t, environ, "trace", "order-17"); err != nil || !strings.Contains(out, "1/m1/8") {
		t.Errorf("trace of an id of any form without core prints %q, %v, want what dispatchers know", out, err)
	}
	environ["CORE"] = newCore(t).URL
	b.Close()
	out, err := call(t, environ, "trace", "1/m1/8")
	if err == nil || !strings.Contains(err.Error(), nameB) || !strings.Contains(out, "1/m1/8") {
		t.Errorf("trace of one copy prints %q, %v, want it, and an error that names %s", out, err, nameB)
	}
}

// The tool says that core does not know an id, and asks the dispatchers all the
// same. It is an error if nobody knows the id.
func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": messagesPort(t, dispatch.Messages{SentSince: at(9)}).URL}
	for _, id := range []string{"m2", "1/m2"} {
		out, err := call(t, environ, "trace", id)
		if err == nil || !strings.Contains(err.Error(), `no program that was asked knows "`+id+`"`) || !strings.Contains(out, "not known to core") {
			t.Errorf("trace of %s, which nobody knows, prints %q, %v, want an error, and that core does not know it", id, out, err)
		}
	}
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"busy"}`, http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	environ = map[string]string{"DISPATCHERS": busy.URL}
	if out, err := call(t, environ, "trace", "1/m1"); err == nil || !strings.Contains(err.Error(), "busy") || out != "" {
		t.Errorf("trace by a busy dispatcher prints %q, %v, want an error", out, err)
	}
}
