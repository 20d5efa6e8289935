package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	proc "chatclub/tools/program"
)

// deployment is the queues of a deployment on a real RabbitMQ.
type deployment struct {
	*testing.T
	broker  *rabbit.Broker
	top     queue.Topology
	environ map[string]string
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	top := queue.Topology{Prefix: rabbittest.Prefix(t), Partitions: 2}
	b, err := rabbit.Open(rabbit.Config{URLs: []string{rabbittest.URL(t)}, Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &deployment{t, b, top, map[string]string{"AMQP_URL": rabbittest.URL(t), "QUEUE_PREFIX": top.Prefix, "PARTITIONS": "2"}}
}

// kill puts n copies on the dead-letter queue and returns their ids.
func (d *deployment) kill(n int, page string, reason message.Reason) (ids []string) {
	d.Helper()
	var msgs []queue.Message
	for i := range n {
		o := message.Outbound{ID: fmt.Sprintf("%s/m%d/7", page, i), Page: page, To: "7", Class: message.ClassText, Text: "a word", Time: 1}
		body, err := o.Encode()
		if err != nil {
			d.Fatal(err)
		}
		death := message.Death{Reason: reason, Time: time.UnixMilli(1_700_000_000_000), Page: page, Recipient: "7", Attempts: 1, FirstCode: "2", LastCode: "2", Error: "because of it"}
		msgs = append(msgs, queue.Message{Queue: d.top.Dead(), ID: o.ID, Body: body, Headers: death.Headers()})
		ids = append(ids, o.ID)
	}
	if err := d.broker.Publish(d.Context(), msgs...); err != nil {
		d.Fatal(err)
	}
	return ids
}

// left empties a queue that is not empty once it has all that nobody holds any more.
// A busy broker says for a moment that it is.
func (d *deployment) left(name string) (ids []string) {
	d.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		found, err := leftover.Empty(d.Context(), d.broker, name)
		if err != nil {
			d.Fatal(err)
		}
		if len(found) == 0 && len(ids) > 0 {
			break
		}
		for _, x := range found {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

func (d *deployment) call(args ...string) string {
	d.Helper()
	out, err := call(d.T, d.environ, args...)
	if err != nil {
		d.Fatalf("%v = %v, want nil", args, err)
	}
	return out
}

func TestDead(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.kill(3, "1", message.ReasonGone)
	want := d.kill(2, "2", message.ReasonExpired)

	out := d.call("dead", "list", "-limit", "4")
	wantOut := `DEAD SINCE            REASON   PAGE  RECIPIENT  CALLS  CODES  ID      ERROR
2023-11-14T22:13:20Z  gone     1     7          1      2      1/m0/7  because of it
2023-11-14T22:13:20Z  gone     1     7          1      2      1/m1/7  because of it
2023-11-14T22:13:20Z  gone     1     7          1      2      1/m2/7  because of it
2023-11-14T22:13:20Z  expired  2     7          1      2      2/m0/7  because of it

5 dead letters: 3 gone, 2 expired
The oldest 4 are shown; -limit 0 shows all.
`
	if out != wantOut {
		t.Errorf("dead list prints\n%swant\n%s", out, wantOut)
	}
	out = d.call("dead", "list", "-json", "-reason", "expired", "-older", "1h")
	wantOut = `{"id":"2/m0/7","reason":"expired","time":"2023-11-14T22:13:20Z","page":"2","recipient":"7","attempts":1,"first_code":"2","last_code":"2","error":"because of it"}
{"id":"2/m1/7","reason":"expired","time":"2023-11-14T22:13:20Z","page":"2","recipient":"7","attempts":1,"first_code":"2","last_code":"2","error":"because of it"}
{"reasons":{"expired":2},"total":2}
`
	if out != wantOut {
		t.Errorf("dead list -json prints\n%swant\n%s", out, wantOut)
	}
	byBroker := queue.Message{Queue: d.top.Dead(), ID: "3/m0/8", Body: []byte(`{"id":"3/m0/8","page":"3","to":"8","text":"x","time":1}`)}
	if err := d.broker.Publish(t.Context(), byBroker); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-reason none": "1 dead letter: 1 moved by the broker", "-to 8": "1 dead letter: 1 moved by the broker",
		"-reason none,gone": "4 dead letters: 3 gone, 1 moved by the broker", "-to 9": "0 dead letters",
	} {
		if out := d.call(append([]string{"dead", "list"}, strings.Fields(args)...)...); !strings.HasSuffix(out, "\n"+want+"\n") {
			t.Errorf("dead list %s prints %q, want %q", args, out, want)
		}
	}
	d.call("dead", "purge", "-reason", "none", "-yes")
	if out := d.call("dead", "show", "1/m1/7"); !strings.Contains(out, "recipient   7\n") || !strings.Contains(out, "error       because of it\n") || strings.Contains(out, "a word") {
		t.Errorf("dead show prints %q, want the recipient and no text", out)
	}
	if out := d.call("dead", "show", "1/m1/7", "-body"); !strings.Contains(out, "a word") {
		t.Errorf("dead show -body prints %q, want the text", out)
	}
	if _, err := call(t, d.environ, "dead", "show", "none"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("dead show of another id = %v, want an error", err)
	}
	if out := d.call("dead", "purge", "-yes", "-page", "1"); out != "purged 3 dead letters: 3 gone\n" {
		t.Errorf("dead purge prints %q", out)
	}
	if got := d.left(d.top.Dead()); !slices.Equal(got, want) {
		t.Errorf("left = %v, want %v", got, want)
	}
}

// When a replay is killed nothing is lost, the next replay goes on, and what was
// passed over stays. Doubled letters were on their way: a batch, or two where the
// broker is slow to take acknowledgements.
func TestKilledReplay(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	const n, rate, batch = 1000, 100, 10
	d.kill(5, "1", message.ReasonGone)
	want := d.kill(n, "2", message.ReasonExhausted)
	keep := []string{"1/m0/7", "1/m1/7", "1/m2/7", "1/m3/7", "1/m4/7"}
	to := d.top.OutboundOf("2")

	ctx, cancel := context.WithTimeout(t.Context(), proc.Patience)
	defer cancel()
	replay := proc.Start(t, proc.Command{
		Path: os.Args[0], Args: []string{"dead", "replay", "-reason", "exhausted", "-rate", fmt.Sprint(rate)},
		Env: append(proc.Environ(d.environ), asTool+"=1"),
	})
	for sent := 0; sent < 3*batch; {
		info, err := d.broker.Inspect(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		sent = info.Ready
	}
	replay.Kill()
	for consumers := 1; consumers > 0; {
		info, err := d.broker.Inspect(ctx, d.top.Dead())
		if err != nil {
			t.Fatal(err)
		}
		consumers = info.Consumers
	}
	before := d.left(to)
	if len(before) == n {
		t.Error("all letters were sent before the kill")
	}
	out := d.call("dead", "replay", "-reason", "exhausted", "-rate", "10000")
	if !strings.HasPrefix(out, "replayed ") || !strings.HasSuffix(out, " exhausted\nkept 0 dead letters\n") {
		t.Errorf("dead replay prints %q", out)
	}
	after := d.left(to)
	sent := slices.Concat(before, after)
	slices.Sort(sent)
	doubled := len(sent) - len(slices.Compact(slices.Clone(sent)))
	slices.Sort(want)
	if different := slices.Compact(sent); !slices.Equal(different, want) || doubled > 2*batch {
		t.Errorf("%d different letters were sent and %d of them twice, want %d and at most %d", len(different), doubled, n, 2*batch)
	}
	t.Logf("%d before the kill, %d after, %d doubled", len(before), len(after), doubled)
	if got := d.left(d.top.Dead()); !slices.Equal(got, keep) {
		t.Errorf("left = %v, want %v", got, keep)
	}
}
