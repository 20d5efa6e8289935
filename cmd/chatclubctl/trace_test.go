package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// messagesPort is a dispatcher's admin port that knows of messages.
func messagesPort(t *testing.T, know dispatch.Messages) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/messages" || r.URL.Query().Get("id") != "1/m1" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(know)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestTrace: one id leads to what core, all dispatchers, the dead letters and the
// queues know, and to what nobody does.
func TestTrace(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.kill(2, "1", message.ReasonGone) // 1/m0/7 and 1/m1/7
	if err := d.broker.Publish(t.Context(), queue.Message{Queue: d.top.OutboundOf("1"), ID: "x", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	lane := d.top.Lane(message.LaneID("1", at(7)), "text")
	rabbittest.DeleteAfter(t, lane)
	err := d.broker.Declare(t.Context(), d.top.LaneSpec(lane))
	if err == nil {
		err = d.broker.Publish(t.Context(), queue.Message{Queue: lane, ID: "y"}, queue.Message{Queue: lane, ID: "z"})
	}
	if err != nil {
		t.Fatal(err)
	}
	a := messagesPort(t, dispatch.Messages{SentSince: at(9), Lanes: []string{lane}, Messages: []dispatch.MessageStatus{
		{ID: "1/m1/8", State: "sent", Attempt: 2, SentAt: at(10)},
	}})
	b := messagesPort(t, dispatch.Messages{SentSince: at(8), Messages: []dispatch.MessageStatus{
		{ID: "1/m1/9", State: "waiting", Queue: lane, Attempt: 1, Age: 2.5},
	}})
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": a.URL + "," + b.URL}
	maps.Copy(environ, d.environ)
	out, err := call(t, environ, "trace", "m1")
	got := strings.Join(fields(out), "\n")
	nameA, nameB := strings.TrimPrefix(a.URL, "http://"), strings.TrimPrefix(b.URL, "http://")
	for _, want := range []string{
		"1/m1\nreceived by core at 20",
		" from 7 in room 1; 0 copies are not all queued yet\n", // newCore has received it, and nothing more
		"1/m1/7 dead dead letters 2023-11-14T22:13:20Z 1 gone, code 2\n" +
			"1/m1/8 sent " + nameA + " 2026-01-02T10:00:00Z 2 -\n" +
			"1/m1/9 waiting " + nameB + " - 1 2.5s old, from " + lane + "\n",
		"may be among the 1 messages on " + d.top.OutboundOf("1") + "\n",
		"may be among the 2 messages on " + lane + "\n",
		"not known: what was sent before 2026-01-02T09:00:00Z",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("trace prints %v\n%s\nwant in it\n%s", err, got, want)
		}
	}
	if strings.Contains(got, "m0") {
		t.Errorf("trace of m1 prints another message:\n%s", got)
	}

	b.Close()
	out, err = call(t, environ, "trace", "1/m1/8", "-json")
	var tr traced
	if err != nil || json.Unmarshal([]byte(out), &tr) != nil || len(tr.Copies) != 1 || tr.Copies[0].ID != "1/m1/8" {
		t.Errorf("trace of one copy prints %s, %v, want that alone", out, err)
	}
	if all := strings.Join(tr.Unknown, "\n"); !strings.Contains(all, nameB) {
		t.Errorf("unknown = %q, want what %s knows", all, nameB)
	}
}

// What is nowhere is said to be, and so is who was not asked.
func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	core := map[string]string{"CORE": newCore(t).URL}
	out, err := call(t, core, "trace", "m2")
	if err != nil || !strings.Contains(out, "not known to core") || !strings.Contains(out, "older than a day") {
		t.Errorf("trace of an unknown mid prints %q, %v", out, err)
	}
	out, err = call(t, core, "trace", "1/m2")
	for _, want := range []string{"not known to core", "DISPATCHERS is not set", "AMQP_URL is not set"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("trace prints %q, %v, want %q", out, err, want)
		}
	}
	if out, err := call(t, core, "trace", "broadcast-none"); err != nil || !strings.Contains(out, "broadcast: unknown") {
		t.Errorf("trace of an unknown broadcast prints %q, %v", out, err)
	}
	if _, err := call(t, map[string]string{}, "trace", "m2"); err == nil || !strings.Contains(err.Error(), "CORE must be set") {
		t.Errorf("trace without CORE = %v, want an error", err)
	}
}
