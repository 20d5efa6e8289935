package fleet

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/loadtest/peer"
)

// faked is a peer made of this program.
func faked(t *testing.T, feeder, worker string) peer.Peer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return peer.Peer{Name: "fake", Dir: t.TempDir(), Feed: []string{self, fakePeer, feeder, "feed"}, Work: []string{self, fakePeer, worker, "work"}}
}

// open opens a fleet of fake peers.
func open(t *testing.T, p peer.Peer) *Peers {
	t.Helper()
	f, err := OpenPeers(t.Context(), Config{
		Options: Options{Limit: 50, Replicas: 2, KeyPrefix: "loadtest:x-1"}, Pages: []string{"1", "2"}, Log: slog.New(slog.DiscardHandler),
	}, p, peer.Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// without returns a fleet of which nothing runs yet, not even the platform.
func without(t *testing.T, p peer.Peer) *Peers {
	t.Helper()
	return &Peers{
		cfg:  Config{Options: Options{Limit: 50, Replicas: 2, KeyPrefix: "loadtest:x-1"}, Log: slog.New(slog.DiscardHandler)},
		peer: p, dir: t.TempDir(), platform: &process{address: "http://platform"}, patience: startTimeout,
	}
}

// feeding returns such a fleet with a feeder.
func feeding(t *testing.T, mode string) *Peers {
	t.Helper()
	f := without(t, faked(t, mode, honest))
	feed := newFeeder()
	var err error
	if feed.process, err = f.start(t.Context(), "feeder", f.peer.Feeder(t.Context()), feed.read); err != nil {
		t.Fatal(err)
	}
	f.feeder = feed
	return f
}

// shut closes a fleet, and checks that nothing of the run is left.
func shut(t *testing.T, f *Peers) error {
	t.Helper()
	err := f.Close(context.Background())
	if left, _ := filepath.Glob(filepath.Join(f.peer.Dir, "*")); len(left) > 0 {
		t.Errorf("left after Close: %q, want nothing", left)
	}
	if _, err := os.Stat(f.dir); err == nil {
		t.Errorf("%s is left after Close", f.dir)
	}
	return err
}

// Programs that do not keep to the interface are told of in a sentence that says
// what they did and what they wrote on standard error.
func TestPeersThatDoNotStart(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		absent: "start fake's worker: it ended without saying ready: no time",
		chatty: `start fake's worker: it said "hello" and not ready`,
		mute:   "start fake's worker: it did not say ready within 200ms",
	} {
		f := without(t, faked(t, honest, mode))
		if mode == mute {
			f.patience = 200 * time.Millisecond
		}
		if err := f.Join(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Join() of a worker that is %s = %v, want %s", mode, err, want)
		}
		if len(f.all()) != 0 {
			t.Errorf("%d workers joined, want none", len(f.all()))
		}
	}
	f := without(t, faked(t, honest, honest))
	f.peer.Work = []string{filepath.Join(f.peer.Dir, "none")}
	if err := f.Join(t.Context()); err == nil || !strings.Contains(err.Error(), "start fake's worker") {
		t.Errorf("Join() without a program = %v, want what could not be started", err)
	}
}

// A feeder that answers wrongly is told of, once and for all.
func TestFeedersThatAnswerWrongly(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		deaf:   "the feeder did not answer: context deadline exceeded",
		short:  "the feeder says that it put 0 of 1",
		babble: `the feeder answered no JSON: "done!"`,
		gone:   "the feeder ended: I had enough",
	} {
		f := feeding(t, mode)
		ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
		if mode == deaf {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		err := f.Publish(ctx, queue.Message{ID: "1/m/2", Body: []byte("{}")})
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Publish() to a feeder that is %s = %v, want %s", mode, err, want)
		}
		if mode == babble || mode == gone {
			if _, _, err := f.Left(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Left() after that = %v, want the same error", err)
			}
		}
		if err := f.feeder.end(t.Context()); (err != nil) != (mode == gone) {
			t.Errorf("end() of a feeder that is %s = %v, want an error of one that is gone only", mode, err)
		}
	}
	f := feeding(t, extra)
	_ = f.Publish(t.Context(), queue.Message{ID: "1/m/2", Body: []byte("{}")}) // answered twice
	if _, _, err := f.Left(t.Context()); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("Left() of a feeder that answers twice = %v, want that it was not asked", err)
	}
	if err := f.feeder.end(t.Context()); err != nil {
		t.Errorf("end() = %v, want nil", err)
	}
}

// Workers are told of the run, may be started by a script, and are killed with it.
func TestKilledWorkerLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := faked(t, honest, honest)
	// The script's own child is what a kill of the script alone would leave.
	p.Work = []string{"/bin/sh", "-c", `echo $GRAPH_URL $LIMIT $REPLICAS $REPLICA $NAMESPACE $(cat "$PAGES_FILE") >told; sleep 600 & echo $! >child; echo ready; wait`}
	f := without(t, p)
	if err := os.WriteFile(f.pagesFile(), []byte("1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(p.Dir, name)); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	if got, want := read("told"), "http://platform/v23.0 50 2 0 loadtest_x_1 1 2"; got != want {
		t.Errorf("the worker was told %q, want %q", got, want)
	}
	child := read("child")
	if err := f.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The child is nobody's any more, and is gone or waits to be reaped.
	for end := time.Now().Add(startTimeout); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("process %s lives on after the kill", child)
		}
	}
	if list := f.all()[0].faults(); len(list) > 0 {
		t.Errorf("faults() = %q, want none: the kill was ours", list)
	}
}

// A usage has the workers, and no server's where that is not known.
func TestUsageOfPeers(t *testing.T) {
	t.Parallel()
	f := open(t, faked(t, honest, honest))
	if u, err := f.Usage(); err != nil || u.Operations != nil {
		t.Errorf("operations without a worker = %v, %v, want unknown", u.Operations, err)
	}
	if err := f.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := f.Usage()
	if err != nil || u.Dispatchers == nil || u.Fake == nil || u.Broker == nil || *u.All != *u.Dispatchers+*u.Broker+*u.Fake || u.Operations != nil {
		t.Errorf("Usage() = %+v, %v, want workers, servers (0 of none), fake and their sum, and no operations", u, err)
	}
	f.servers = []*peer.Running{{Kind: peer.Redis}} // not on this machine
	if u, err = f.Usage(); err != nil || u.Broker != nil || u.All != nil || u.Dispatchers == nil {
		t.Errorf("Usage() with a server elsewhere = %+v, %v, want no sum", u, err)
	}
	f.servers = nil
	worker := f.all()[0]
	if err := worker.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-worker.done
	if list := f.Errors(); len(list) != 1 || !strings.Contains(list[0], "fake's worker ended by itself") {
		t.Errorf("Errors() = %q, want that the worker ended by itself", list)
	}
	if err := shut(t, f); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}
