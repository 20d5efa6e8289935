package peer

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"chatclub/loadtest/proc"
)

// written is a folder with a peer.json of such content.
func written(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// table is of the processes that there are now.
func table(t *testing.T) *proc.Table {
	t.Helper()
	all, err := proc.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every wrong field of a peer.json is named, and the file with it.
func TestFileIsChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ content, want string }{
		{`{`, "unexpected EOF"},
		{`{"name":"x","colour":"red"}`, "colour"},
		{`{"name":"X y","source":"s","feed":["a"],"work":["b"]}`, "name:"},
		{`{"name":"x","source":"two\nlines","feed":["a"],"work":["b"]}`, "source:"},
		{`{"name":"x","source":"s","needs":["kafka"],"feed":["a"],"work":["b"]}`, `needs: "kafka"`},
		{`{"name":"x","source":"s","work":["b"]}`, "feed:"},
		{`{"name":"x","source":"s","feed":["a"],"work":[]}`, "work:"},
	} {
		dir := written(t, tc.content)
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), fileName) {
			t.Errorf("Read(%s) = %v, want an error that names %s and the file", tc.content, err, tc.want)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("Read() of a folder without the file = nil error, want one")
	}
	one := written(t, `{"name":"x","source":"s","feed":["a"],"work":["b"]}`)
	if _, err := Find(one + "," + one); err == nil || !strings.Contains(err.Error(), "x is there twice") {
		t.Errorf("Find() of one peer twice = %v, want that", err)
	}
	if _, err := Find(Everyone); err == nil || !strings.Contains(err.Error(), "in the folder loadtest") {
		t.Errorf("Find(all) elsewhere = %v, want where it works", err)
	}
}

// This project's own peers can be read, and all of them are found.
func TestOwnPeers(t *testing.T) {
	t.Chdir("..")
	all, err := Find(Everyone)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
		if filepath.Base(p.Dir) != p.Name {
			t.Errorf("%s is in the folder %s, want its name", p.Name, p.Dir)
		}
	}
	if got, want := strings.Join(names, " "), "asynq bullmq rabbit-redis river"; got != want {
		t.Errorf("peers = %s, want %s", got, want)
	}
	if some, err := Find("river, " + filepath.Join(folder, "asynq")); err != nil || len(some) != 2 || some[1].Name != "asynq" {
		t.Errorf("Find() of a name and a path = %v, %v, want both", some, err)
	}
}

// What a peer needs and cannot have is said in a sentence.
func TestMissingIsTold(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no program
	for _, tc := range []struct {
		needs Server
		at    Addresses
		want  string
	}{
		{RabbitMQ, Addresses{}, "it needs RabbitMQ (-broker amqp://…)"},
		{RabbitMQ, Addresses{RabbitMQ: "amqp://u:hunter2@127.0.0.1:1/"}, "it needs RabbitMQ: none is installed, and none answers: dial tcp 127.0.0.1:1"},
		{Redis, Addresses{}, "it needs Redis: install the server, or give its address (-redis ADDRESS)"},
		{Redis, Addresses{Redis: "redis://:hunter2@127.0.0.1:1/0"}, "it needs Redis: none is installed, and none answers: dial tcp 127.0.0.1:1"},
		{Redis, Addresses{Redis: "redis://:hunter2%@x"}, "its address cannot be read"},
	} {
		p := Peer{Needs: []Server{tc.needs}}
		if _, err := p.Have(t.Context(), tc.at); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Have(%s) = %v, want %s", tc.needs, err, tc.want)
		}
	}
	p := Peer{Programs: []string{"node"}}
	if err := p.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "it needs node, which is not on the PATH") {
		t.Errorf("Prepare() without node = %v, want that", err)
	}
	p = Peer{Dir: t.TempDir(), Build: []string{"/bin/sh", "-c", "echo so far; echo 'Error: no luck'; echo see the log; exit 3"}}
	if err := p.Prepare(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: Error: no luck") {
		t.Errorf("Prepare() that fails = %v, want the line that tells why", err)
	}
}

// Where no server is installed that at the address serves, and is measured where
// it is on this machine.
func TestServerAtAnAddress(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no program
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who listens")
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, a := Peer{Needs: []Server{Redis}}, Addresses{Redis: "redis://" + l.Addr().String() + "/0"}
	if on, err := p.Have(t.Context(), a); on != "Redis" || err != nil {
		t.Errorf("Have() = %q, %v, want Redis", on, err)
	}
	all, err := p.Start(t.Context(), a)
	if err != nil || len(all) != 1 || all[0].URL != a.Redis {
		t.Fatalf("Start() = %v, %v, want the server at the address", all, err)
	}
	if all[0].pid != os.Getpid() {
		t.Errorf("pid = %d, want that of this process, which listens", all[0].pid)
	}
	if _, ok, err := all[0].CPU(table(t)); !ok || err != nil {
		t.Errorf("CPU() = %t, %v, want it known", ok, err)
	}
	if err := all[0].Stop(); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
	elsewhere := &Running{Kind: Redis}
	if cpu, ok, err := elsewhere.CPU(table(t)); ok || err != nil {
		t.Errorf("CPU() of a server elsewhere = %v, %t, %v, want unknown", cpu, ok, err)
	}
}

// Private servers answer, are measured, and leave nothing behind.
func TestPrivateServers(t *testing.T) {
	t.Parallel()
	p := Peer{}
	for _, kind := range []Server{Redis, PostgreSQL} {
		if path, name := kind.program(); path == "" {
			t.Logf("%s is not installed: it is not started", name)
		} else {
			p.Needs = append(p.Needs, kind)
		}
	}
	if len(p.Needs) == 0 {
		t.Skip("neither redis-server nor postgres is installed")
	}
	on, err := p.Have(t.Context(), Addresses{})
	if err != nil || strings.Count(on, "a private ") != len(p.Needs) {
		t.Errorf("Have() = %q, %v, want %d private servers", on, err, len(p.Needs))
	}
	all, err := p.Start(t.Context(), Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := answers(t.Context(), r.URL); err != nil {
			t.Errorf("%s does not answer: %v", r.Kind, err)
		}
		if cpu, ok, err := r.CPU(table(t)); !ok || err != nil || cpu < 0 {
			t.Errorf("CPU() of %s = %v, %v, %v, want it known", r.Kind, cpu, ok, err)
		}
		if err := r.Stop(); err != nil {
			t.Errorf("Stop() of %s = %v, want nil", r.Kind, err)
		}
		if _, err := os.Stat(r.dir); err == nil {
			t.Errorf("%s is left of %s", r.dir, r.Kind)
		}
		if err := answers(context.Background(), r.URL); err == nil {
			t.Errorf("%s answers after Stop()", r.Kind)
		}
	}
}

// A server that does not start says why.
func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := &Running{Kind: Redis, dir: t.TempDir(), done: make(chan struct{})}
	if err := r.guard(nil, "/bin/sh", "-c", "echo address in use; exit 1"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if log, _ := os.ReadFile(filepath.Join(r.dir, "log")); bytes.Contains(log, []byte("use\n")) {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.await(ctx); err == nil || !strings.Contains(err.Error(), "address in use") {
		t.Errorf("await() = %v, want what it logged", err)
	}
	if err := r.Stop(); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
}
