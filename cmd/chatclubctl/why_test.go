package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/dispatch"
	"chatclub/internal/inquiry"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

// newDispatcher is a dispatcher's admin port that knows pages, and these messages by some ids.
func newDispatcher(t *testing.T, know dispatch.Messages, pages ...dispatch.PageStatus) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("id")
		switch {
		case r.URL.Path == "/readyz":
		case r.URL.Path == "/pages":
			_ = json.NewEncoder(w).Encode(dispatch.Status{Limit: 4096, Pages: pages, Paused: []dispatch.PausedPage{{Page: "3", Reason: "sale"}}})
		case r.URL.Path == "/messages" && (id == "1/m1" || id == "1/m1/8" || id == "order-17" || id == "m2" || id == "1/m2"):
			_ = json.NewEncoder(w).Encode(know)
		case r.URL.Path == "/messages" && r.URL.Query().Get("to") == "8":
			_ = json.NewEncoder(w).Encode(know)
		case r.URL.Path == "/messages":
			_ = json.NewEncoder(w).Encode(dispatch.Messages{SentSince: know.SentSince})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestWhyPage: one sentence for each class says what waits, for what, and what ends that. The
// exit code says whether somebody must act.
func TestWhyPage(t *testing.T) {
	t.Parallel()
	arrival := &dispatch.Arrival{After: 5.07, From: 3.44, To: 66.7}
	for _, row := range []struct {
		page dispatch.PageStatus
		want string
		code int
	}{
		{dispatch.PageStatus{Page: "1"}, "1 text: nothing waits\n", 0},
		{dispatch.PageStatus{Page: "1", Arrival: arrival}, "1 text: nothing waits: one written now arrives in about 5.1s (3.4s to 1m7s)\n", 0},
		{
			dispatch.PageStatus{Page: "1", Waiting: 1298, Oldest: 7.6, Limit: 300, Reason: dispatch.WaitsForLimit, Until: at(9), Arrival: arrival},
			"1 text: 1298 wait, the oldest for 7.6s, for the page's limit (300/s): one written now arrives in about 5.1s (3.4s to 1m7s); more dispatchers change nothing (runbook, MessagesPileUp)\n", 0,
		},
		{dispatch.PageStatus{Page: "1", Waiting: 3}, "1 text: 3 wait and go now\n", 0},
		{dispatch.PageStatus{Page: "1", Waiting: 3, Reason: dispatch.WaitsForAnswer}, "1 text: 3 wait for the answer to a call to the same person\n", 0},
		{
			dispatch.PageStatus{Page: "1", Waiting: 3, Oldest: 224, Reason: dispatch.WaitsForPermission, Until: at(11)},
			"1 text: 3 wait, the oldest for 3m44s, because the page's token is missing or refused (probed at 2026-01-02T11:00:00Z); " +
				"repair the token, and pause the page meanwhile (runbook, PageSuspended)\n", 3,
		},
		{
			dispatch.PageStatus{Page: "3", Waiting: 2, Reason: dispatch.WaitsForResume},
			"3: paused (operator: sale)\n3 text: 2 wait because operators have paused the page; chatclubctl pages resume 3 ends that\n", 3,
		},
		{dispatch.PageStatus{Page: "1", Waiting: 2, Reason: "new"}, "1 text: 2 wait for a reason that this version does not know: new\n", 3},
	} {
		row.page.Class = "text"
		environ := map[string]string{"DISPATCHERS": newDispatcher(t, dispatch.Messages{}, row.page).URL}
		out, err := call(t, environ, "why", row.page.Page)
		if code := exitCode(err); out != row.want || code != row.code {
			t.Errorf("why prints %q, exit code %d (%v)\nwant %q, %d", out, code, err, row.want, row.code)
		}
		out, _ = call(t, environ, "why", row.page.Page, "-json")
		var answer inquiry.Answer
		if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Page == nil || answer.Act != (row.code != 0) || strings.Join(answer.Sentences, "\n")+"\n" != row.want {
			t.Errorf("why -json prints %s, %v, want the page, its sentences, and whether somebody must act", out, err)
		}
	}
}

// exitCode is the exit code that a command's error makes.
func exitCode(err error) int {
	if code, ok := errors.AsType[service.Exit](err); ok {
		return int(code)
	}
	if err != nil {
		return service.ExitFailure
	}
	return service.ExitOK
}

// TestWhyQueues: with the broker's address it is said whether anybody takes what waits for the
// page on its partitions, which programs with other PARTITIONS do not.
func TestWhyQueues(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2}
	broker, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	if err := broker.Publish(t.Context(), queue.Message{Queue: top.OutboundOf("1"), ID: "1/m/7", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	sub, err := broker.Consume(top.InboundOf("1"), queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	environ := map[string]string{
		"DISPATCHERS": newDispatcher(t, dispatch.Messages{}, dispatch.PageStatus{Page: "1", Class: "text", Arrival: &dispatch.Arrival{After: 1, From: 1, To: 2}}).URL,
		"AMQP_URL":    rabbittest.URL(t), "QUEUE_PREFIX": top.Prefix, "PARTITIONS": "2",
	}
	want := "1: no dispatcher takes the 1 messages of " + top.OutboundOf("1") + ":"
	if out, err := call(t, environ, "why", "1"); exitCode(err) != 3 || !strings.Contains(out, want) {
		t.Errorf("why prints %q, %v, want %q and exit code 3", out, err, want)
	}
	other, err := broker.Consume(top.OutboundOf("1"), queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	<-other.Deliveries()
	if err := broker.Publish(t.Context(), queue.Message{Queue: top.OutboundOf("1"), ID: "1/m/8", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	want = "1: somebody else consumes " + top.OutboundOf("1") + ", where 1 messages are ready"
	if out, err := call(t, environ, "why", "1"); exitCode(err) != 3 || !strings.Contains(out, want) || strings.Contains(out, "arrives") {
		t.Errorf("why beside a consumer of somebody else prints %q, %v, want %q, no time of arrival and exit code 3", out, err, want)
	}
	environ["PARTITIONS"] = "200"
	if out, err := call(t, environ, "why", "1"); exitCode(err) != 3 || !strings.Contains(out, "PARTITIONS must be as the programs have them") {
		t.Errorf("why with other PARTITIONS prints %q, %v, want that there is no such queue", out, err)
	}
}

// TestWhyMessage: one id leads to the knowledge of core and all dispatchers. One that does not
// answer is named.
func TestWhyMessage(t *testing.T) {
	t.Parallel()
	a := newDispatcher(t, dispatch.Messages{SentSince: at(9), Messages: []dispatch.MessageStatus{
		{ID: "1/m1/8", State: "sent", Attempt: 2, SentAt: at(10)},
	}})
	b := newDispatcher(t, dispatch.Messages{SentSince: at(8), Messages: []dispatch.MessageStatus{
		{ID: "1/m1/9", State: "waiting", Queue: "x.lane.01.2", Attempt: 1, Reason: dispatch.WaitsForPerson, Until: at(11)},
		{ID: "1/m1/10", State: "moving", Queue: "x.outbound.01", Attempt: 1, Reason: dispatch.WaitsForTime, Until: at(12)},
	}})
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": a.URL + "," + b.URL}
	nameA, nameB := strings.TrimPrefix(a.URL, "http://"), strings.TrimPrefix(b.URL, "http://")
	for _, id := range []string{"m1", "1/m1"} {
		out, err := call(t, environ, "why", id)
		for _, want := range []string{
			"1/m1 received by core at 20",
			" from 7 in room 1; 0 copies are not all queued yet\n", // newCore has received it, and nothing more
			"1/m1/10 goes by " + nameB + " to a retry queue: it waits for the time that the message names (until 2026-01-02T12:00:00Z)\n" +
				"1/m1/8 was sent at 2026-01-02T10:00:00Z by " + nameA + ", with call 2\n" +
				"1/m1/9 waits on " + nameB + ", from x.lane.01.2, for call 1: for the next try to the person, or the person's own limit (until 2026-01-02T11:00:00Z)\n",
			"sent since 2026-01-02T09:00:00Z",
		} {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("why %s prints %v\n%s\nwant in it\n%s", id, err, out, want)
			}
		}
	}
	delete(environ, "CORE")
	if out, err := call(t, environ, "why", "order-17"); err != nil || !strings.Contains(out, "1/m1/8") {
		t.Errorf("why of an id of any form without core prints %q, %v, want what dispatchers know", out, err)
	}
	environ["CORE"] = newCore(t).URL
	b.Close()
	out, err := call(t, environ, "why", "1/m1/8")
	if err == nil || !strings.Contains(err.Error(), nameB) || !strings.Contains(out, "1/m1/8") {
		t.Errorf("why of one copy prints %q, %v, want it, and an error that names %s", out, err, nameB)
	}
}

// The tool says that core does not know an id, and asks the dispatchers all the
// same. It is an error if nobody knows the id.
func TestWhyNothing(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": newDispatcher(t, dispatch.Messages{SentSince: at(9)}).URL}
	for _, id := range []string{"m2", "1/m2"} {
		out, err := call(t, environ, "why", id)
		if err == nil || !strings.Contains(err.Error(), `no program that was asked knows "`+id+`"`) || !strings.Contains(out, "not known to core") {
			t.Errorf("why %s, which nobody knows, prints %q, %v, want an error, and that core does not know it", id, out, err)
		}
	}
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"busy"}`, http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	environ = map[string]string{"DISPATCHERS": busy.URL}
	if out, err := call(t, environ, "why", "1/m1"); err == nil || !strings.Contains(err.Error(), "busy") || out != "" {
		t.Errorf("why by a busy dispatcher prints %q, %v, want an error", out, err)
	}
}

// TestWhyTrouble: no time of arrival is promised while a program is not ready; what one of two
// dispatchers knows of a page that the other has taken over is not told.
func TestWhyTrouble(t *testing.T) {
	t.Parallel()
	a := dispatch.PageStatus{Page: "1", Class: "text", Pace: 7, Arrival: &dispatch.Arrival{After: 1, From: 1, To: 2}}
	owner := a
	owner.Owner = true
	old, now := newDispatcher(t, dispatch.Messages{}, a), newDispatcher(t, dispatch.Messages{}, owner)
	blocked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready: publish connection: broker blocked: low on disk", http.StatusServiceUnavailable)
	}))
	defer blocked.Close()
	environ := map[string]string{"DISPATCHERS": old.URL + "," + now.URL, "CORE": newCore(t).URL}
	if out, err := call(t, environ, "why", "1"); err != nil || strings.Count(out, "arrives in about 1s") != 1 {
		t.Errorf("why prints %q, %v, want one line, of the owner", out, err)
	}
	environ["CORE"] = newCore(t).URL + "," + blocked.URL
	if out, err := call(t, environ, "why", "1"); exitCode(err) != 3 || !strings.Contains(out, "broker blocked: low on disk") || strings.Contains(out, "arrives") {
		t.Errorf("why prints %q, %v, want that the broker is blocked, no time of arrival, and exit code 3", out, err)
	}
}

// TestWhyPerson: core says what keeps copies from a person, and dispatchers which of its messages
// they have.
func TestWhyPerson(t *testing.T) {
	t.Parallel()
	know := dispatch.Messages{Messages: []dispatch.MessageStatus{
		{ID: "order-17", Page: "4", To: "8", State: "waiting", Attempt: 1, Reason: dispatch.WaitsForResume},
	}}
	environ := map[string]string{"CORE": newCore(t).URL, "DISPATCHERS": newDispatcher(t, know).URL}
	for _, id := range []string{"7", "1/7"} {
		out, err := call(t, environ, "why", id)
		if want := "person 7 of page 1 is in room 1; it wrote last at 20"; err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("why %s prints %q, %v, want %q", id, out, err, want)
		}
	}
	out, err := call(t, environ, "why", "8")
	if want := "because operators have paused the page; chatclubctl pages resume 4 ends that"; exitCode(err) != 3 || !strings.Contains(out, want) {
		t.Errorf("why 8 prints %q, %v, want the message to it, %q, and exit code 3", out, err, want)
	}
}

// TestWhyMuch: people are shown a few of many sentences; programs get all.
func TestWhyMuch(t *testing.T) {
	t.Parallel()
	var know dispatch.Messages
	for range 100 {
		know.Messages = append(know.Messages, dispatch.MessageStatus{ID: "1/m1/8"})
	}
	environ := map[string]string{"DISPATCHERS": newDispatcher(t, know).URL}
	out, _ := call(t, environ, "why", "order-17")
	if n := strings.Count(out, "\n"); n != mostSentences+1 || !strings.Contains(out, "more: -json has all\n") {
		t.Errorf("why prints %d lines, want %d:\n%s", n, mostSentences+1, out)
	}
	out, _ = call(t, environ, "why", "order-17", "-json")
	if n := strings.Count(out, `"dispatcher"`); n != 100 {
		t.Errorf("why -json has %d messages, want 100", n)
	}
}
