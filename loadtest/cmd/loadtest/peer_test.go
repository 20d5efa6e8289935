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
	"syscall"
	"testing"
	"time"

	"chatclub/loadtest/report"
)

// fakePeer is a peer's feeder or worker, whose queue is a folder. It sends without a
// thought of limits, and loses nothing.
func fakePeer(kind string) {
	dir := filepath.Join(os.TempDir(), os.Getenv("NAMESPACE"))
	type mail struct{ ID, Page, Body string }
	if kind == "fakepeer-feed" {
		_ = os.MkdirAll(dir, 0o700)
		fmt.Println("ready")
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var c struct {
				N    int
				Put  []mail
				Left bool
			}
			_ = json.Unmarshal(lines.Bytes(), &c)
			answer := map[string]any{"n": c.N, "put": len(c.Put)}
			for _, m := range c.Put {
				b, _ := json.Marshal(m)
				_ = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(m.ID, "/", "_")+".tmp"), b, 0o600)
				_ = os.Rename(filepath.Join(dir, strings.ReplaceAll(m.ID, "/", "_")+".tmp"), filepath.Join(dir, strings.ReplaceAll(m.ID, "/", "_")+".mail"))
			}
			if c.Left {
				waiting := []string{}
				files, _ := filepath.Glob(filepath.Join(dir, "*.mail"))
				for _, f := range files {
					var m mail
					b, _ := os.ReadFile(f)
					_ = json.Unmarshal(b, &m)
					waiting = append(waiting, m.ID)
				}
				answer["left"] = map[string]any{"waiting": waiting, "dead": []string{}}
			}
			b, _ := json.Marshal(answer)
			fmt.Println(string(b))
		}
		_ = os.RemoveAll(dir)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(dir, "*.mail"))
		for _, f := range files {
			if os.Rename(f, f+"."+os.Getenv("REPLICA")) != nil {
				continue // another worker has it
			}
			var m mail
			b, _ := os.ReadFile(f + "." + os.Getenv("REPLICA"))
			_ = json.Unmarshal(b, &m)
			req, _ := http.NewRequest(http.MethodPost, os.Getenv("GRAPH_URL")+"/"+m.Page+"/messages", strings.NewReader(m.Body))
			req.Header.Set("Authorization", "Bearer token-"+m.Page)
			req.Header.Set("Content-Type", "application/json")
			resp, err := new(http.Client).Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				_ = os.Rename(f+"."+os.Getenv("REPLICA"), f)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
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
	r := loadtest(t.Context(), "compare", "small-limits", "-strategies", "chatclub", "-peers", dir, "-replicas", "2", "-duration", "3s", "-latency", "fixed:5ms", "-quiet", "-out", out)
	found, err := report.Read(out)
	if err != nil || len(found.Runs) != 3 {
		t.Fatalf("no report of three runs: %v; the program said %s%s", err, r.out, r.err)
	}
	run := found.Runs[2]
	if run.Strategy != "mine" || run.Status == report.Failed || run.Figures[report.Sent] == 0 || run.Figures[report.Lost] != 0 || run.Figures[report.Unexpected] != 0 {
		t.Errorf("the peer's run = %+v, want some sent, none lost, none unexpected", run)
	}
}
