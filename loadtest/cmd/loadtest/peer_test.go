package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chatclub/loadtest/report"
)

// fakePeer is a peer's feeder, which sends by itself, without a thought of limits, and
// loses nothing; or a worker, which does nothing.
func fakePeer(kind string) {
	fmt.Println("ready")
	if kind == "fakepeer-work" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		<-ctx.Done()
		return
	}
	type mail struct{ ID, Page, Body string }
	var waiting sync.Map // ids
	send := func(m mail) {
		defer waiting.Delete(m.ID)
		for ; ; time.Sleep(10 * time.Millisecond) {
			req, _ := http.NewRequest(http.MethodPost, os.Getenv("GRAPH_URL")+"/"+m.Page+"/messages", strings.NewReader(m.Body))
			req.Header.Set("Authorization", "Bearer token-"+m.Page)
			req.Header.Set("Content-Type", "application/json")
			if resp, err := new(http.Client).Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				if _ = resp.Body.Close(); resp.StatusCode == http.StatusOK {
					return
				}
			}
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c struct {
			Put  []mail
			Left bool
		}
		_ = json.Unmarshal(lines.Bytes(), &c)
		answer := map[string]any{"put": len(c.Put)}
		for _, m := range c.Put {
			waiting.Store(m.ID, true)
			go send(m)
		}
		if c.Left {
			ids := []string{}
			waiting.Range(func(id, _ any) bool { ids = append(ids, id.(string)); return true })
			answer["left"] = map[string]any{"waiting": ids, "dead": []string{}}
		}
		b, _ := json.Marshal(answer)
		fmt.Println(string(b))
	}
}

// A system of somebody else is fed, judged and taken down as ours is.
func TestPeer(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := fmt.Sprintf(`{"name":"mine","source":"a folder","needs":[],"programs":[],"feed":[%q,"fakepeer-feed"],"work":[%q,"fakepeer-work"]}`, self, self)
	if err := os.WriteFile(filepath.Join(dir, "peer.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	r := loadtest(t.Context(), "compare", "small-limits", "-strategies", "chatclub", "-peers", dir, "-replicas", "2", "-duration", "3s", "-latency", "fixed:5ms", "-out", out)
	found, err := report.Read(out)
	if err != nil || len(found.Runs) != 3 {
		t.Fatalf("no report of three runs: %v; the program said %s%s", err, r.out, r.err)
	}
	run := found.Runs[2]
	if run.Strategy != "mine" || run.Status == report.Failed || run.Figures[report.Sent] == 0 || run.Figures[report.Lost] != 0 || run.Figures[report.Unexpected] != 0 {
		t.Errorf("the peer's run = %+v, want some sent, none lost, none unexpected", run)
	}
}
