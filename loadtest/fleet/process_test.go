package fleet

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/loadtest/proc"
)

// spawnOne starts a child process that needs no broker, with metrics that say
// what the test wants; an empty text is a server that fails.
func spawnOne(t *testing.T, metrics *string) *process {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	p, err := spawn(t.Context(), slog.New(slog.DiscardHandler), KindPlatform, childSpec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.kill() })
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if *metrics == "" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, *metrics)
	}))
	t.Cleanup(admin.Close)
	p.admin = admin.URL
	return p
}

// A look that fails makes the operations unknown, and says so for good: what was
// counted before would be too low.
func TestLookThatFailsIsTold(t *testing.T) {
	t.Parallel()
	metrics := "chatclub_broker_published_total 5\n"
	p := spawnOne(t, &metrics)
	if u := p.look(t.Context()); u.operations == nil || *u.operations != 5 || u.cpu == nil || u.peak == nil || *u.peak < 1<<20 {
		t.Errorf("look = %+v, want 5 operations, CPU time, and memory of 1 MiB at least", u)
	}
	if list := p.faults(); len(list) > 0 {
		t.Errorf("faults = %q, want none", list)
	}
	metrics = ""
	if u := p.look(t.Context()); u.operations != nil {
		t.Errorf("operations after a look that failed = %d, want unknown", *u.operations)
	}
	metrics = "chatclub_broker_published_total 6\nloadtest_strategy_errors_total 2\n"
	if err := p.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := p.look(t.Context()); u.operations == nil || *u.operations != 6 || u.cpu == nil {
		t.Errorf("look after stop = %+v, want the 6 operations from before it", u)
	}
	list := strings.Join(p.faults(), "\n")
	if !strings.Contains(list, "did not tell its operations: answer 500") || !strings.Contains(list, "met 2 errors") || strings.Contains(list, "by itself") {
		t.Errorf("faults = %q, want the look that failed and the 2 errors", list)
	}
}

// A process that ended by itself is told of, whatever is done with it after.
func TestCrashIsTold(t *testing.T) {
	t.Parallel()
	metrics := "chatclub_broker_published_total 5\n"
	for name, then := range map[string]func(*process) error{
		"nothing": func(*process) error { return nil },
		"stop":    func(p *process) error { return p.stop(t.Context()) },
		"kill":    func(p *process) error { p.close(t.Context()); return p.kill() },
	} {
		p := spawnOne(t, &metrics)
		p.look(t.Context())
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.done
		if err := then(p); err != nil {
			t.Errorf("%s after a crash = %v, want nil", name, err)
		}
		if u := p.look(t.Context()); u.operations != nil {
			t.Errorf("%s: operations of a crashed process = %d, want unknown", name, *u.operations)
		}
		if list := p.faults(); len(list) != 1 || !strings.Contains(list[0], "platform ended by itself") {
			t.Errorf("%s: faults = %q, want that it ended by itself", name, list)
		}
	}
}

// Usage has webhook and core in the sum, and Errors tells of them.
func TestFrontIsCounted(t *testing.T) {
	t.Parallel()
	metrics := "chatclub_broker_published_total 5\n"
	ingress := spawnOne(t, &metrics)
	ingress.kind = KindIngress
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// This process stands for a dispatcher that has used some time.
	busy := &process{kind: KindDispatcher, cmd: &exec.Cmd{Process: self}, stderr: &tail{}, done: make(chan struct{}), admin: ingress.admin}
	p := &Processes{reg: prometheus.NewRegistry(), platform: spawnOne(t, &metrics), ingress: ingress, crew: crew{running: []*process{busy}}, brokerPID: os.Getpid()}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // until the ingress has used some
		if cpu, err := proc.CPU(ingress.cmd.Process.Pid); err != nil || cpu > 0 {
			break
		}
		_ = get(t.Context(), ingress.address+"/", nil)
	}
	u, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if *u.Ingress == 0 || *u.All != *u.Dispatchers+*u.Ingress+*u.Broker+*u.Fake {
		t.Errorf("All = %v of dispatchers %v, ingress %v, broker %v, fake %v, want the sum", *u.All, *u.Dispatchers, *u.Ingress, *u.Broker, *u.Fake)
	}
	if *u.Operations != 10 {
		t.Errorf("operations = %d, want 5 of each", *u.Operations)
	}
	if err := ingress.kill(); err != nil {
		t.Fatal(err)
	}
	if list := p.Errors(); len(list) != 1 || !strings.Contains(list[0], "ingress ended by itself") {
		t.Errorf("Errors() = %q, want that the ingress ended by itself", list)
	}
	if u, err = p.Usage(); err != nil || u.Operations != nil {
		t.Errorf("operations after the ingress's crash = %v, %v, want unknown", u.Operations, err)
	}
}

// A process that cannot be asked makes a sum unknown, and memory is one
// dispatcher's.
func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	known := func(n int64) used { return used{cpu: new(time.Duration(n)), peak: new(n), operations: new(n)} }
	type want struct {
		Operations, Memory   *int64
		Dispatchers, Ingress *time.Duration
	}
	for _, row := range []struct {
		name                 string
		dispatchers, ingress []used
		want                 want
	}{
		{"none", nil, nil, want{Operations: new(int64(100)), Dispatchers: new(time.Duration(0))}},
		{
			"all known",
			[]used{known(1), known(3), known(2)},
			[]used{known(10)},
			want{Operations: new(int64(116)), Memory: new(int64(3)), Dispatchers: new(time.Duration(6)), Ingress: new(time.Duration(10))},
		},
		{"one dispatcher unknown", []used{known(1), {}}, []used{known(10)}, want{Ingress: new(time.Duration(10))}},
		{
			"the ingress unknown",
			[]used{known(1), known(3)},
			[]used{{}},
			want{Memory: new(int64(3)), Dispatchers: new(time.Duration(4))},
		},
	} {
		u := usage(row.dispatchers, row.ingress, 100)
		got := want{Operations: u.Operations, Memory: u.Memory, Dispatchers: u.Dispatchers, Ingress: u.Ingress}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// The log has all that a child writes on standard error, line by line.
func TestChildrenAreHeard(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	l := &lines{log: log, kind: "dispatcher"}
	fmt.Fprint(l, "one\ntw")
	fmt.Fprint(l, "o\nthree")
	l.end()
	l.end()
	var got []string
	for line := range strings.Lines(b.String()) {
		_, line, _ = strings.Cut(line, "line=")
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	b.Reset()
	// A dispatcher without an address for its calls cannot start.
	if _, err := spawn(t.Context(), log, KindDispatcher, childSpec{}); err == nil {
		t.Error("spawn of a dispatcher with an empty spec = nil error, want one")
	}
	if !strings.Contains(b.String(), "kind=dispatcher") {
		t.Errorf("log = %q, want what the child said", b.String())
	}
}
