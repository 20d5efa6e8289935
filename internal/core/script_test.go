package core

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
)

// TestScript plays a script of a chat on each database and each broker, and
// compares all messages with a golden file. UPDATE_GOLDEN=1 writes a new file.
func TestScript(t *testing.T) {
	t.Parallel()
	databases := map[string]func(testing.TB) string{
		"sqlite":   func(testing.TB) string { return "sqlite::memory:" },
		"postgres": roomstest.DSN,
	}
	brokers := map[string]func(testing.TB) queue.Broker{
		"memory": func(t testing.TB) queue.Broker { t.Helper(); return newBroker(t) },
		"rabbit": newRabbit,
	}
	for db, url := range databases {
		for name, broker := range brokers {
			t.Run(db+"/"+name, func(t *testing.T) {
				t.Parallel()
				if testing.Short() && (db == "sqlite") != (name == "memory") {
					t.Skip("long: make test-long; the short run has each database and each broker once")
				}
				u := url(t)
				got := play(t, u, broker(t))
				const golden = "testdata/script.golden"
				if os.Getenv("UPDATE_GOLDEN") != "" && db == "sqlite" && name == "memory" {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("what the script leads to: -want +got\n%s", diff)
				}
			})
		}
	}
}

func newRabbit(t testing.TB) queue.Broker {
	t.Helper()
	url, prefix := rabbittest.URL(t), rabbittest.Prefix(t)
	b, err := rabbit.Open(rabbit.Config{URLs: []string{url}, Topology: queue.Topology{Prefix: prefix, Partitions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	return b
}

// player plays a script on a core.
type player struct {
	broker queue.Broker
	core   *Core
	store  *rooms.Store
	out    queue.Subscription
	now    atomic.Int64 // the clock of all, Unix milliseconds
	last   message.Event
	lines  int
	told   strings.Builder
}

// play returns the script, with the messages of each line below it.
func play(t *testing.T, url string, broker queue.Broker) string {
	t.Helper()
	s := &player{broker: broker}
	now := func() time.Time { return time.UnixMilli(s.now.Load()).UTC() }
	var err error
	s.store, err = rooms.Open(rooms.Config{
		DatabaseURL: url, Capacity: 4, Idle: 2 * time.Hour, FloodLimit: 5, FloodPeriod: 10 * time.Second, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.store.Close()
	s.core, err = New(Config{Broker: broker, Store: s.store, Workers: 1, Idle: 2 * time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if s.out, err = broker.Consume(broker.Topology().Outbound(0), queue.ConsumeOptions{Prefetch: 1000}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.core.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}()
	script, err := os.Open("testdata/script.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	for lines := bufio.NewScanner(script); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			s.line(t, line)
		}
	}
	return s.told.String()
}

// line plays one line and waits for all of its messages.
func (s *player) line(t *testing.T, line string) {
	t.Helper()
	s.lines++
	fmt.Fprintln(&s.told, line)
	at, what, _ := strings.Cut(line, " ")
	var h, m, sec int
	if _, err := fmt.Sscanf(at, "%d:%d:%d", &h, &m, &sec); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	midnight := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s.now.Store(midnight.Add(time.Duration(h*3600+m*60+sec) * time.Second).UnixMilli())
	switch {
	case what == "sweep":
		silent, err := s.store.SilentMembers(t.Context(), rooms.Silent{})
		if err == nil {
			err = sweeper{s.core.cfg, s.core.retry}.announce(t.Context(), silent)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	case what == "reports":
		s.reports(t)
	case strings.HasPrefix(what, "ban "):
		if err := s.store.Ban(t.Context(), "p", what[4:], time.UnixMilli(s.now.Load()).Add(24*time.Hour)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	default:
		s.put(t, s.event(t, what))
	}
	s.await(t)
}

// reports writes the reports as operators see them.
func (s *player) reports(t *testing.T) {
	t.Helper()
	list, err := s.store.Reports(t.Context(), "p", rooms.ReportView{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		fmt.Fprintf(&s.told, "    %s about %s, %s in room %d, times %d\n", r.Reporter, r.Accused, r.Name, r.Room, r.Times)
		for _, text := range r.Texts {
			fmt.Fprintf(&s.told, "        %s %s\n", text.At.Format("15:04:05"), strings.ReplaceAll(text.Text, "\n", " / "))
		}
	}
}

var spoken = regexp.MustCompile(`^(\w+)(?:\((\w+)\))?(?:@(\d+)s)?: (tap )?(.*)$`)

var attached = regexp.MustCompile(`\[(\w+) (\S+)\]`)

func (s *player) event(t *testing.T, what string) message.Event {
	t.Helper()
	ev := message.Event{Page: "p", ID: fmt.Sprintf("m%02d", s.lines), Time: s.now.Load()}
	words := strings.Fields(what)
	switch words[0] {
	case "again":
		return s.last
	case "feedback":
		ev.Kind, ev.Reason, ev.User = message.KindFeedback, words[1], words[2]
	case "policy":
		ev.Kind, ev.Action = message.KindPolicy, words[1]
	default:
		parts := spoken.FindStringSubmatch(what)
		if parts == nil {
			t.Fatalf("cannot read %q", what)
		}
		ev.Kind, ev.User, ev.Locale, ev.Text = message.KindMessage, parts[1], parts[2], strings.ReplaceAll(parts[5], "⏎", "\n")
		if parts[3] != "" {
			age, err := strconv.Atoi(parts[3])
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			ev.Time -= int64(age) * 1000
		}
		if parts[4] != "" {
			ev.Kind, ev.Payload, ev.Title, ev.Text = message.KindPostback, parts[5], "a button", ""
		}
		for _, a := range attached.FindAllStringSubmatch(ev.Text, -1) {
			ev.Attachments = append(ev.Attachments, message.Attachment{Type: a[1], URL: a[2]})
			ev.Text = strings.TrimSpace(strings.ReplaceAll(ev.Text, a[0], ""))
		}
	}
	s.last = ev
	return ev
}

func (s *player) put(t *testing.T, ev message.Event) {
	t.Helper()
	body, err := ev.Encode()
	if err != nil {
		t.Fatal(err)
	}
	msg := queue.Message{Queue: s.broker.Topology().InboundOf(ev.Page), ID: ev.Page + "/" + ev.ID, Body: body}
	if err := s.broker.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// await collects the messages until core has handled the line. There is one worker,
// and pages take turns: behind each event of another page it has handled one more of
// the line, which are five at most.
func (s *player) await(t *testing.T) {
	t.Helper()
	for i := range 6 {
		s.behind(t, fmt.Sprintf("behind%d/%d", s.lines, i))
	}
}

// behind collects the messages until a user of another page, who writes now, gets
// the answer.
func (s *player) behind(t *testing.T, behind string) {
	t.Helper()
	s.put(t, message.Event{Kind: message.KindMessage, Page: "q", ID: behind, User: behind, Time: s.now.Load(), Text: "/help"})
	timeout := time.After(30 * time.Second)
	for {
		select {
		case d := <-s.out.Deliveries():
			o, err := message.DecodeOutbound(d.Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Ack(); err != nil {
				t.Fatal(err)
			}
			if o.To == behind {
				return
			}
			s.tell(o)
		case <-timeout:
			t.Fatalf("no answer behind line %d", s.lines)
		}
	}
}

// tell writes one message: its id without the page, class, text or attachment, and
// buttons.
func (s *player) tell(o message.Outbound) {
	what := strings.ReplaceAll(o.Text, "\n", " / ")
	if o.Attachment != nil {
		what = "[" + o.Attachment.Type + " " + o.Attachment.URL + "]"
	}
	if o.Class != message.ClassText {
		what = string(o.Class) + " " + what
	}
	fmt.Fprintf(&s.told, "    %s → %s: %s\n", strings.TrimPrefix(o.ID, "p/"), o.To, what)
	if len(o.Replies) > 0 {
		titles := slices.Collect(func(yield func(string) bool) {
			for _, r := range o.Replies {
				if !yield(r.Title + "=" + r.Payload) {
					return
				}
			}
		})
		fmt.Fprintf(&s.told, "        %s\n", strings.Join(titles, " | "))
	}
}
