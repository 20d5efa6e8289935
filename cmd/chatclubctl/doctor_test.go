package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
)

// program is an admin port that is ready, or says why not, and tells of pages.
func program(t *testing.T, says string, s dispatch.Status) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && says != "":
			http.Error(w, "not ready: "+says, http.StatusServiceUnavailable)
		case r.URL.Path == "/pages":
			_ = json.NewEncoder(w).Encode(s)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// management is a management API, for one user, that tells of queues of the virtual host /.
func management(t *testing.T, queues string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "watcher" || password != "pa ss" || r.URL.EscapedPath() != "/api/queues/%2F" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(queues))
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://watcher:pa%20ss@", 1)
}

// TestDoctor: one run finds everything that is wrong, says what to do with a heading of the
// runbook, and what it did not look at.
func TestDoctor(t *testing.T) {
	t.Parallel()
	top, broker, environ := declared(t, 3) // the tool has PARTITIONS=2
	for _, name := range []string{top.Outbound(1), top.Outbound(2), top.Dead()} {
		if err := broker.Publish(t.Context(), queue.Message{Queue: name, ID: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	a := program(t, "", dispatch.Status{Limit: 1, Pages: []dispatch.PageStatus{
		{Page: "1", Class: "text", Waiting: 5, Reason: dispatch.WaitsForLimit},
		{Page: "4", Class: "text", Waiting: 5, Reason: dispatch.WaitsForApp},
		{Page: "5", Class: "text", Waiting: 5, Reason: dispatch.WaitsForResume},
		{Page: "3", Class: "text", Waiting: 5, Reason: dispatch.WaitsForPermission},
	}, Suspended: []dispatch.SuspendedPage{{Page: "2"}, {Page: "3", Code: "190", ProbeAt: at(11)}}})
	b := program(t, "the database does not answer", dispatch.Status{})
	c := program(t, "", dispatch.Status{APIDown: true})
	name := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	environ["DISPATCHERS"], environ["CORE"] = a.URL+","+c.URL, b.URL
	environ["MANAGEMENT_URL"] = management(t, `[{"name":"`+top.Outbound(0)+`","effective_policy_definition":{"message-ttl":60000}}]`)
	want := []string{
		"programs: core " + name(b) + " is not ready: the database does not answer\n    Repair what it names. (runbook, CoreFails)",
		"settings: there are 2 queues beyond PARTITIONS=2, such as " + top.Inbound(2) + ", with 1 messages\n",
		"queues: 1 messages on " + top.Outbound(1) + " have no consumer\n    Start a dispatcher",
		"api: the Send API takes no calls of " + name(c) + "\n",
		"tokens: page 2 has no token on " + name(a) + "\n",
		"pages: page 3 is suspended on " + name(a) + " (code 190), probed at 2026-01-02T11:00:00Z\n",
		"pages: page 4 text: 5 wait because Meta throttles the app\n    Stop broadcasts and other programs of the app. (runbook, AppThrottled)\n",
		"policies: a policy on " + top.Outbound(0) + ": message-ttl 60000 takes off what is older\n",
		"well: broker\nnot looked at: programs: WEBHOOK not set\n",
	}
	out, err := call(t, environ, "doctor")
	rest := out
	for _, line := range want {
		var found bool
		if _, rest, found = strings.Cut(rest, line); !found {
			t.Fatalf("doctor prints %v\n%s\nwant in this order, among them\n%s", err, out, line)
		}
	}
	if exitCode(err) != 1 || rest != "" || strings.Count(out, "runbook, ") != len(want)-1 {
		t.Errorf("doctor prints %v\n%s\nwant exit code 1, and no other fault", err, out)
	}
	runbook, readErr := os.ReadFile("../../docs/runbook.md")
	if readErr != nil {
		t.Fatal(readErr)
	}
	out, _ = call(t, environ, "doctor", "-json")
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || len(d.Faults) != len(want)-1 {
		t.Errorf("doctor -json prints %s, %v, want %d faults", out, err, len(want)-1)
	}
	for _, f := range d.Faults {
		if !strings.Contains(string(runbook), "\n## "+f.Runbook+"\n") {
			t.Errorf("%s leads to %q, which the runbook does not have", f.Says, f.Runbook)
		}
	}
}

// TestDoctorOfTheWell: where nothing is wrong the exit code is 0. Without addresses nothing is
// said to be well that was not looked at.
func TestDoctorOfTheWell(t *testing.T) {
	t.Parallel()
	_, _, environ := declared(t, 2)
	well := program(t, "", dispatch.Status{}).URL
	environ["DISPATCHERS"], environ["WEBHOOK"], environ["CORE"], environ["MANAGEMENT_URL"] = well, well, well, management(t, "[]")
	want := "well: broker, programs, settings, queues, api, tokens, pages, policies\n"
	if out, err := call(t, environ, "doctor"); err != nil || out != want {
		t.Errorf("doctor prints %q, %v, want %q", out, err, want)
	}
	out, err := call(t, map[string]string{"CORE": well, "WEBHOOK": well}, "doctor")
	if err != nil || strings.Contains(out, "well: ") || !strings.Contains(out, "not looked at: tokens: DISPATCHERS is not set\n") {
		t.Errorf("doctor without addresses prints %q, %v, want nothing well that was not looked at", out, err)
	}
	gone := map[string]string{"CORE": "http://127.0.0.1:1", "AMQP_URL": "amqp://127.0.0.1:1/"}
	out, err = call(t, gone, "doctor")
	for _, line := range []string{
		"broker: RabbitMQ takes no messages: ", "    Bring it back, or repair AMQP_URL. (runbook, BrokerAway)\n",
		"programs: core 127.0.0.1:1 does not answer: ", "not looked at: queues: ",
	} {
		if exitCode(err) != 1 || !strings.Contains(out, line) {
			t.Errorf("doctor of what is away prints %q, %v, want %q and exit code 1", out, err, line)
		}
	}
}

// TestDoctorBelievesPrograms: what they say of RabbitMQ leads to RabbitMQ's headings. Of an
// alarm the tool's own connection, which publishes nothing, is not told.
func TestDoctorBelievesPrograms(t *testing.T) {
	t.Parallel()
	_, _, environ := declared(t, 2)
	for says, want := range map[string]string{
		"broker blocked: low on memory":   "broker: RabbitMQ takes no messages: an alarm has it block who publishes\n    Add disk or memory, and find why the longest queue grows. (runbook, BrokerNearItsLimits)\n",
		"partitions stand: x.outbound.01": ": partitions stand: x.outbound.01\n    Its log has the command that heals it. (runbook, PartitionStands)\n",
	} {
		environ["CORE"] = program(t, says, dispatch.Status{}).URL
		out, err := call(t, environ, "doctor")
		if exitCode(err) != 1 || !strings.Contains(out, want) || strings.Count(out, "(runbook, ") != 1 || strings.Contains(want, "broker:") && strings.Contains(out, "well: broker") {
			t.Errorf("doctor beside %q prints %v\n%s\nwant %q alone", says, err, out, want)
		}
	}
}

// TestLosses: policies that take messages off our queues are told, whatever the queue but the
// dead letters'. One that has publishers wait loses nothing.
func TestLosses(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: "x", Partitions: 2}
	for _, row := range []struct{ queues, want string }{
		{`[]`, ""},
		{`[{"name":"x.dead","effective_policy_definition":{"max-length":5,"message-ttl":5}}]`, ""},
		{`[{"name":"y.outbound.00","effective_policy_definition":{"message-ttl":5}},{"name":"x.outbound.00"}]`, ""},
		{`[{"name":"x.outbound.00","effective_policy_definition":{"max-length":5,"overflow":"reject-publish"}}]`, ""},
		{`[{"name":"x.outbound.00","effective_policy_definition":{"max-length":5}}]`, "a policy on x.outbound.00: max-length 5 drops the oldest"},
		{
			`[{"name":"x.lane.00.1","effective_policy_definition":{"delivery-limit":20}},{"name":"x.inbound.00","effective_policy_definition":{"delivery-limit":20,"queue-leader-locator":"balanced"}}]`,
			"a policy on x.inbound.00 and 1 more: delivery-limit 20 takes off what came back so often",
		},
	} {
		var list []policed
		if err := json.Unmarshal([]byte(row.queues), &list); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(losses(top, list), "\n"); got != row.want {
			t.Errorf("losses(%s) = %q, want %q", row.queues, got, row.want)
		}
	}
}

func TestVhostOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"amqp://a": "/", "amqp://a/": "/", "amqp://a:5672/chat": "chat", "amqp://a/%2Fchat": "/chat"} {
		if got := vhostOf([]string{in}); got != want {
			t.Errorf("vhostOf(%q) = %q, want %q", in, got, want)
		}
	}
}
