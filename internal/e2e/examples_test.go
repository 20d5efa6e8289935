package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/tools/program"
)

const (
	adminToken    = "a-token-of-operators"
	messagesToken = "a-token-of-a-bot"
)

// own starts the platform without users, and a dispatcher: all that a bot with a webhook
// of its own needs.
func own(t *testing.T) *deployment {
	t.Helper()
	d := platform(t, plan{more: map[string]string{"ADMIN_TOKEN": adminToken, "MESSAGES_TOKEN": messagesToken}}, map[string]string{"PAGES": "3"})
	d.startDispatcher(t).ready(t)
	return d
}

// deliver posts a body as Messenger does, until it is answered 200.
func deliver(t *testing.T, hook, body string) {
	t.Helper()
	program.Eventually(t, "the bot answers 200", func() error {
		code, err := postSigned(hook, body)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("answered %d", code)
		}
		return err
	})
}

// postSigned posts a body with Messenger's signature, and returns the answer's status.
func postSigned(url, body string) (int, error) {
	return postJSON(url, body, signed(secret, body))
}

// signed returns the header with Messenger's signature of a body.
func signed(secret, body string) map[string]string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))}
}

// postJSON makes a POST, and returns the answer's status.
func postJSON(url, body string, header map[string]string) (int, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// said is a body with a text of a user, whose timestamp is now.
func said(page, user, mid, text string) string {
	return bodyOf(entryOf(page, user, mid, text, time.Now()))
}

// bodyOf is a body with these entries.
func bodyOf(entries ...string) string {
	return `{"object":"page","entry":[` + strings.Join(entries, ",") + `]}`
}

// entryOf is the entry of a text.
func entryOf(page, user, mid, text string, at time.Time) string {
	return fmt.Sprintf(`{"id":%q,"time":1,"messaging":[{"sender":{"id":%q},"recipient":{"id":%q},"timestamp":%d,"message":{"mid":%q,"text":%q}}]}`,
		page, user, page, at.UnixMilli(), mid, text)
}

// expect announces ids to the ledger.
func (d *deployment) expect(t *testing.T, page string, ids ...string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"page": page, "ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := postJSON("http://"+d.fakeAddr+"/ledger/expect", string(body), nil); err != nil || code != 200 {
		t.Fatalf("announce to the ledger: %d, %v", code, err)
	}
}

// TestOwnBot runs each example with the real programs, one after another: it answers
// everybody once, also where Messenger posts an event twice, or with another one that
// cannot be answered. Then the platform takes what only an own bot sends.
func TestOwnBot(t *testing.T) {
	t.Parallel()
	d := own(t)
	const each = 20
	for i, example := range [][]string{
		{"python", "python3", "bot.py"},
		{"node", "node", "bot.mjs"},
		{"go", filepath.Join(binDir, "go")},
	} {
		t.Run(example[0], func(t *testing.T) {
			name := example[0]
			path, err := program.Find(example[1])
			if err != nil {
				t.Skipf("%s is not installed", example[1])
			}
			before, err := d.totals()
			if err != nil {
				t.Fatal(err)
			}
			hook := "http://" + freeAddr(t)
			environ := []string{
				"APP_SECRET=" + secret, "VERIFY_TOKEN=verify", "PORT=" + hook[strings.LastIndex(hook, ":")+1:],
				"MESSAGES_URL=http://" + d.dispatchers[0].admin + "/messages", "MESSAGES_TOKEN=" + messagesToken,
				"AMQP_URL=" + d.amqpURL, "QUEUE_PREFIX=" + d.prefix, "PARTITIONS=" + strconv.Itoa(partitions),
			}
			twice := true
			if name == "go" { // it takes no webhooks
				d.startWebhook(t, freeAddr(t), map[string]string{"WEBHOOK_EVENTS": "all"})
				hook, twice = d.hook, false
				deliver(t, hook, `{"object":"page","entry":[{"id":"1","time":1,"messaging":[{"sender":{"id":"2"},"recipient":{"id":"1"},"referral":{"ref":"x"}}]}]}`)
			}
			dir := filepath.Join("..", "..", "examples", name)
			checkShort(t, dir)
			program.Start(t, program.Command{Path: path, Args: example[2:], Dir: dir, Env: append(os.Environ(), environ...)})
			pages := d.pageIDs(t)
			for k := range each {
				page, user, mid := pages[k%len(pages)], fmt.Sprint(100+k), fmt.Sprint("m_", i, "_", k)
				d.expect(t, page, page+"/"+mid+"/"+user)
				body := said(page, user, mid, "Grüße \"quoted\"\nand more")
				deliver(t, hook, body)
				if twice {
					deliver(t, hook, body)
				}
			}
			want := before.Accepted + each
			if twice {
				now, page, user := time.Now(), pages[0], "200"
				first, second := fmt.Sprint("first_", i), fmt.Sprint("second_", i)
				d.expect(t, page, page+"/"+first+"/"+user, page+"/"+second+"/"+user)
				event, old := entryOf(page, user, first, "hi", now), entryOf(page, user, "old", "hi", time.UnixMilli(1))
				deliver(t, hook, bodyOf(event, event, old, entryOf(page, user, second, "hi", now)))
				want += 2
			}
			got := d.awaitSent(t, want)
			checkComplete(t, got, 0)
			if got.Accepted != want || got.Refused != 0 {
				t.Errorf("ledger: %+v, want %d accepted and none refused", got, want)
			}
			if name != "go" {
				if code, err := postJSON(hook, said("1", "1", "m_x", "forged"), map[string]string{"X-Hub-Signature-256": "sha256=0"}); err != nil || code != 403 {
					t.Errorf("an event with a wrong signature is answered %d, %v, want 403", code, err)
				}
				if code, body, err := get(hook + "/?hub.mode=subscribe&hub.verify_token=verify&hub.challenge=42"); err != nil || code != 200 || body != "42" {
					t.Errorf("setting the webhook up is answered %d %q, %v, want 200 and the challenge", code, body, err)
				}
			}
		})
	}
	t.Run("its messages", func(t *testing.T) { ownMessages(t, d) })
	t.Run("careless messages", func(t *testing.T) { careless(t, d) })
}

// checkShort fails t unless a folder has one file, of at most 40 lines of code.
func checkShort(t *testing.T, dir string) {
	t.Helper()
	source, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(source) != 1 {
		t.Fatalf("files of %s: %q, %v, want one", dir, source, err)
	}
	text, err := os.ReadFile(source[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 40 {
		t.Errorf("%s has %d lines, want at most 40", source[0], lines)
	}
}

// ownMessages: a payload with quick replies, a template, a tag, and an action.
func ownMessages(t *testing.T, d *deployment) {
	t.Helper()
	page := d.pageIDs(t)[0]
	d.expect(t, page, "a", "b", "c")
	list := fmt.Sprintf(`[
		{"id":"a","page":%q,"to":"7","payload":{"text":"hi","quick_replies":[{"content_type":"text","title":"A","payload":"B"}]},"messaging_type":"RESPONSE"},
		{"id":"b","page":%[1]q,"to":"7","payload":{"attachment":{"type":"template","payload":{"template_type":"generic","elements":[{"title":"x"}]}}}},
		{"id":"c","page":%[1]q,"to":"7","text":"hi","messaging_type":"MESSAGE_TAG","tag":"HUMAN_AGENT","notification_type":"NO_PUSH"},
		{"id":"d","page":%[1]q,"to":"7","sender_action":"typing_on"}]`, page)
	if code, err := postJSON("http://"+d.dispatchers[0].admin+"/messages", list, map[string]string{"Authorization": "Bearer " + messagesToken}); err != nil || code != http.StatusAccepted {
		t.Fatalf("POST /messages = %d, %v, want 202", code, err)
	}
	program.Eventually(t, "all is sent, and nothing rejected", func() error {
		_, body, err := get("http://" + d.fakeAddr + "/ledger")
		if err != nil {
			return err
		}
		var ledger struct {
			Totals struct{ Accepted, Actions, Rejected, Unexpected, Pending int }
		}
		if err := json.Unmarshal([]byte(body), &ledger); err != nil {
			return err
		}
		if got := ledger.Totals; got.Actions != 1 || got.Rejected > 0 || got.Unexpected > 0 || got.Pending > 0 {
			return fmt.Errorf("ledger: %+v", got)
		}
		return nil
	})
}

// careless: what a producer sends that knows only half of the protocol. All that can be
// sent is sent, and the rest is dead with a reason.
func careless(t *testing.T, d *deployment) {
	t.Helper()
	before, err := d.totals()
	if err != nil {
		t.Fatal(err)
	}
	connection, err := amqp.Dial(d.amqpURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	page, top := d.pageIDs(t)[0], queue.Topology{Prefix: d.prefix, Partitions: partitions}
	wrong := top.Outbound((top.PartitionOf(page) + 1) % partitions)
	publish := func(name, fields string, p amqp.Publishing) {
		t.Helper()
		p.Body = fmt.Appendf(nil, `{"page":%q,"to":"8","text":"hi"%s}`, page, fields)
		if err := channel.PublishWithContext(t.Context(), "", name, true, false, p); err != nil {
			t.Fatal(err)
		}
	}
	now := fmt.Sprintf(`,"time":%d`, time.Now().UnixMilli())
	d.expect(t, page, "bare", "typed", "stray", "any")
	publish(top.OutboundOf(page), now+`,"id":"bare"`, amqp.Publishing{}) // neither persistent nor with a message id
	publish(top.OutboundOf(page), now+`,"id":"typed","color":"red"`, amqp.Publishing{ContentType: "text/csv", MessageId: "typed"})
	publish(wrong, now+`,"id":"stray"`, amqp.Publishing{MessageId: "stray"})
	publish(top.OutboundAny(), now+`,"id":"any"`, amqp.Publishing{MessageId: "any"})
	publish(top.OutboundOf(page), `,"id":"timeless"`, amqp.Publishing{MessageId: "timeless"})
	checkComplete(t, d.awaitSent(t, before.Accepted+4), 0)
	program.Eventually(t, "the message without a time is dead, and says why", func() error {
		letter, ok, err := channel.Get(top.Dead(), true)
		if err == nil && !ok {
			err = errors.New("no dead letter")
		}
		if err != nil {
			return err
		}
		if why := fmt.Sprint(letter.Headers[message.HeaderError]); letter.MessageId != "timeless" || !strings.Contains(why, "time is missing") {
			t.Errorf("dead is %q, because %q, want timeless, because its time is missing", letter.MessageId, why)
		}
		return nil
	})
}
