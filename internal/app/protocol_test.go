package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"chatclub/docs/schema"
	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// schemas compiles the schemas of docs/protocol.md, by their names.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := make(map[string]*jsonschema.Schema)
	for _, name := range []string{"event", "outbound", "dead"} {
		raw, err := schema.Files.ReadFile("v1/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		text, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource(name, text); err != nil {
			t.Fatal(err)
		}
		if all[name], err = c.Compile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// recorder is a broker that keeps everything that is published.
type recorder struct {
	*memory.Broker
	mu   sync.Mutex
	seen []queue.Message
}

func (r *recorder) Publish(ctx context.Context, msgs ...queue.Message) error {
	r.mu.Lock()
	r.seen = append(r.seen, msgs...)
	r.mu.Unlock()
	return r.Broker.Publish(ctx, msgs...)
}

func (r *recorder) all() []queue.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// graph answers each call by its recipient's name: a code of the Send API, or nothing
// for a call that it takes.
type graph map[string]string

func (g graph) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	status, answer := http.StatusOK, `{"recipient_id":"2","message_id":"m_1"}`
	for to, code := range g {
		if strings.Contains(string(body), `"recipient":{"id":"`+to+`"}`) {
			status, answer = http.StatusBadRequest, `{"error":{"message":"no","type":"OAuthException","code":`+code+`}}`
		}
	}
	return &http.Response{StatusCode: status, Header: make(http.Header), Request: r, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// TestPublishedFollowsTheSchemas: webhook, core and dispatcher run together, and all
// that they publish on the public queues is as docs/schema says.
func TestPublishedFollowsTheSchemas(t *testing.T) {
	t.Parallel()
	b, opt := given(t)
	r := &recorder{Broker: b}
	opt.Broker = r
	w, err := NewWebhook(t.Context(), WebhookConfig{
		Settings: load[WebhookSettings](t, "APP_SECRET", "chatclub-test-secret", "VERIFY_TOKEN", "verify-me", "WEBHOOK_EVENTS", "all"), Options: opt,
	})
	if err != nil {
		t.Fatal(err)
	}
	hook := run(t, w).http + "/webhook"
	c, err := NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t, "DATABASE_URL", "sqlite:"+t.TempDir()+"/core.db"), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	const page, stopped = "106378625516323", "200"
	d, err := NewDispatcher(t.Context(), DispatcherConfig{
		Settings: load[DispatcherSettings](t, "PAGES_FILE", "given", "MESSAGE_TTL", "1h"), Options: opt,
		Tokens:    sender.StaticTokens(map[string]string{page: "t", stopped: "t", "106378625516399": "t"}),
		Transport: graph{"gone": "551", "bad": "100", "closed": `10,"error_subcode":2018278`, "blocked": "368"},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, d)

	post := func(body []byte, signature string) {
		t.Helper()
		if code, text := request(t, http.MethodPost, hook, body, signature); code != 200 {
			t.Fatalf("POST %s = %d %s, want 200", body, code, text)
		}
	}
	signed := func(items ...string) {
		t.Helper()
		body := fmt.Appendf(nil, `{"object":"page","entry":[{"id":%q,"time":%d,"messaging":[%s]}]}`, page, time.Now().UnixMilli(), strings.Join(items, ","))
		mac := hmac.New(sha256.New, []byte("chatclub-test-secret"))
		mac.Write(body)
		post(body, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	item := func(user, mid, what string) string {
		return fmt.Sprintf(`{"sender":{"id":%q},"recipient":{"id":%q},"timestamp":%d,%s}`, user, page, time.Now().UnixMilli(), fmt.Sprintf(what, mid))
	}
	for i, user := range []string{"1", "2", "gone", "bad", "closed"} {
		signed(item(user, "m_j"+strconv.Itoa(i), `"message":{"mid":%q,"text":"hello"}`))
	}
	signed(item("1", "m_a", `"message":{"mid":%q,"attachments":[{"type":"audio","payload":{"url":"https://x/a"}},{"type":"location","payload":{"coordinates":{"lat":1,"long":2}}}]}`),
		item("2", "m_p", `"postback":{"mid":%q,"title":"Help","payload":"/help"}`),
		item("2", "m_q", `"message":{"mid":%q,"text":"yes","quick_reply":{"payload":"/rooms"},"reply_to":{"mid":"m_a"}}`))
	fixtures, err := filepath.Glob(fixtures + "/*.sig")
	if err != nil || len(fixtures) < 10 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	for _, file := range fixtures {
		if name := filepath.Base(strings.TrimSuffix(file, ".sig")); name != "bad-object" && name != "bad-not-json" {
			post(readFixture(t, name+".json"), string(readFixture(t, name+".sig")))
		}
	}
	top := b.Topology()
	for _, o := range []message.Outbound{
		{ID: "200/m/blocked", Page: stopped, To: "blocked", Class: message.ClassText, Text: "hi", Time: time.Now().UnixMilli()},
		{ID: "old", Page: page, To: "2", Class: message.ClassText, Text: "hi", Time: time.Now().Add(-2 * time.Hour).UnixMilli()},
	} {
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Publish(t.Context(), queue.Message{Queue: top.OutboundOf(o.Page), ID: o.ID, Body: body}); err != nil {
			t.Fatal(err)
		}
	}

	want := []string{
		"message", "postback", "policy", "other", "feedback gone", "feedback window_closed",
		"text", "attachment", "replies",
		"dead undecodable", "dead gone", "dead window_closed", "dead bad_message", "dead expired", // page_stopped takes five minutes
	}
	var missing []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		got := kinds(t, top, r.all())
		if missing = slices.DeleteFunc(slices.Clone(want), func(kind string) bool { return got[kind] > 0 }); len(missing) == 0 {
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("never published: %q", missing)
	}
	all := schemas(t)
	for _, m := range r.all() {
		if m.Queue == top.Orders() { // what is there is for our own programs
			continue
		}
		if err := follows(all, top, m); err != nil {
			t.Errorf("on %s: %s\n%v\n%v", m.Queue, m.Body, m.Headers, err)
		}
	}
}

// follows checks a message against the schema of its queue.
func follows(all map[string]*jsonschema.Schema, top queue.Topology, m queue.Message) error {
	switch {
	case m.Queue == top.Dead():
		headers := make(map[string]any)
		for name, value := range m.Headers {
			headers[name] = value
		}
		return all["dead"].Validate(headers)
	case message.IsMarker(m.Headers):
		return nil
	case isEvents(top, m.Queue):
		return validate(all["event"], m.Body)
	}
	return validate(all["outbound"], m.Body)
}

// isEvents reports whether a queue holds events.
func isEvents(top queue.Topology, name string) bool { return slices.Contains(top.Inbounds(), name) }

func validate(s *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// kinds counts the published messages by kind.
func kinds(t *testing.T, top queue.Topology, msgs []queue.Message) map[string]int {
	t.Helper()
	n := make(map[string]int)
	for _, m := range msgs {
		switch {
		case m.Queue == top.Dead():
			n["dead "+m.Headers[message.HeaderReason]]++
		case message.IsMarker(m.Headers):
		case isEvents(top, m.Queue):
			e, err := message.DecodeEvent(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			n[strings.TrimSpace(string(e.Kind)+" "+e.Reason)]++
			n[string(e.Kind)]++
		default:
			var o map[string]any
			if err := json.Unmarshal(m.Body, &o); err != nil {
				t.Fatal(err)
			}
			for name := range o {
				n[name]++
			}
		}
	}
	return n
}

// TestDecoderAgreesWithSchema: a message that the dispatcher refuses the schema refuses, too,
// and each takes the messages that the other takes.
func TestDecoderAgreesWithSchema(t *testing.T) {
	t.Parallel()
	s := schemas(t)["outbound"]
	for body, want := range map[string]bool{
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","time":1767225600000}`:                                                                     true,
		`{"id":"i","page":"1","to":"2","class":"media","attachment":{"type":"audio","url":"https://x/a"},"time":1767225600000}`:                              true,
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","replies":[{"title":"a","payload":"b"}],"time":1767225600000,"unknown":{}}`:                true,
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","joins":true,"answer":true,"broadcast":"b","deadline":1767225600000,"time":1767225600000}`: true,
		`{"id":"","page":"1","to":"2","class":"text","text":"hi","time":1767225600000}`:                                                                      false,
		`{"id":"i","page":"","to":"2","class":"text","text":"hi","time":1767225600000}`:                                                                      false,
		`{"id":"i","page":"1","to":7,"class":"text","text":"hi","time":1767225600000}`:                                                                       false,
		`{"id":"i","page":"1","to":"2","class":"video","text":"hi","time":1767225600000}`:                                                                    false,
		`{"id":"i","page":"1","to":"2","class":"text","time":1767225600000}`:                                                                                 false,
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","attachment":{"type":"image","url":"https://x"},"time":1767225600000}`:                     false,
		`{"id":"i","page":"1","to":"2","class":"text","attachment":{"type":"image"},"time":1767225600000}`:                                                   false,
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","replies":[{"title":"a"}],"time":1767225600000}`:                                           false,
		`{"id":"i","page":"1","to":"2","class":"text","text":"hi","attempts":-1,"time":1767225600000}`:                                                       false,
		`{"id":"i","page":"1","to":"2","payload":{"text":"hi"},"messaging_type":"MESSAGE_TAG","tag":"HUMAN_AGENT","time":1767225600000}`:                     true,
		`{"id":"i","page":"1","to":"2","sender_action":"typing_on","time":1767225600000}`:                                                                    true,
		`{"id":"i","page":"1","to":"2","payload":{},"time":1767225600000}`:                                                                                   false,
		`{"id":"i","page":"1","to":"2","payload":"hi","time":1767225600000}`:                                                                                 false,
		`{"id":"i","page":"1","to":"2","payload":{"text":"hi","metadata":"m"},"time":1767225600000}`:                                                         false,
		`{"id":"i","page":"1","to":"2","payload":{"text":"hi"},"text":"hi","time":1767225600000}`:                                                            false,
		`{"id":"i","page":"1","to":"2","text":"hi","tag":"HUMAN_AGENT","time":1767225600000}`:                                                                false,
		`{"id":"i","page":"1","to":"2","text":"hi","messaging_type":"MESSAGE_TAG","time":1767225600000}`:                                                     false,
		`{"id":"i","page":"1","to":"2","sender_action":"typing_on","messaging_type":"UPDATE","time":1767225600000}`:                                          false,
		`{"id":"i","page":"1","to":"2","sender_action":"dance","time":1767225600000}`:                                                                        false,
		`["id"]`: false,
	} {
		_, err := message.DecodeOutbound([]byte(body))
		if invalid := validate(s, []byte(body)); (err == nil) != want || (invalid == nil) != want {
			t.Errorf("%s: the decoder says %v, the schema %v, want valid: %t", body, err, invalid, want)
		}
	}
}

// TestProtocolsExamples: the examples of docs/protocol.md are valid, and its test
// vectors are those of our programs.
func TestProtocolsExamples(t *testing.T) {
	t.Parallel()
	text := document(t, "docs/protocol.md")
	vectors := regexp.MustCompile("(?m)^\\| `(\\d+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(text, -1)
	if len(vectors) != 3 {
		t.Errorf("docs/protocol.md has %d test vectors, want 3", len(vectors))
	}
	for _, v := range vectors {
		for i, partitions := range []int{1<<31 - 1, 4, 64} {
			top := queue.Topology{Prefix: "p", Partitions: partitions}
			want := v[2+i]
			if i == 0 { // the hash itself is not shown, but its rest of a prime is
				hash, err := strconv.ParseUint(v[2], 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				want = strconv.FormatUint(hash%uint64(partitions), 10)
			}
			if got := top.OutboundOf(v[1]); got != "p.outbound."+want {
				t.Errorf("page %s of %d partitions is on %s, but the document says %s", v[1], partitions, got, want)
			}
		}
	}
	all := schemas(t)
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(examples) != 2 {
		t.Fatalf("docs/protocol.md has %d examples, want 2", len(examples))
	}
	if err := validate(all["outbound"], []byte(examples[0][1])); err != nil {
		t.Error(err)
	}
	if err := validate(all["event"], []byte(examples[1][1])); err != nil {
		t.Error(err)
	}
}

// TestMessagesByHTTP: dispatcher and core take messages on their admin ports, with the
// token alone, and as docs/schema/v1/openapi.json has it.
func TestMessagesByHTTP(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	d, err := NewDispatcher(t.Context(), DispatcherConfig{
		Settings: load[DispatcherSettings](t, "PAGES_FILE", "given", "ADMIN_TOKEN", "a-token-of-operators", "MESSAGES_TOKEN", "a-token-of-a-bot"), Options: opt,
		Tokens: sender.StaticTokens(map[string]string{"1": "t"}), Transport: graph{},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCore(t.Context(), CoreConfig{
		Settings: load[CoreSettings](t, "DATABASE_URL", "sqlite:"+t.TempDir()+"/core.db", "ADMIN_TOKEN", "a-token-of-operators"), Options: opt,
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(admin, page, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/messages", strings.NewReader(`{"page":"`+page+`","to":"7","text":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
	dispatcher, core := run(t, d).admin, run(t, c).admin
	for _, row := range []struct {
		admin, page, token string
		code               int
		answer             string
		warns              bool // that the program has no pages file
	}{
		{dispatcher, "1", "a-token-of-operators", 202, `{"ids":["1/`, false},
		{dispatcher, "2", "a-token-of-operators", 400, `{"error":"page: `, false},
		{dispatcher, "1", "a-token-of-a-bot", 202, `{"ids":["1/`, false},
		{dispatcher, "1", "another", 401, "", false},
		{core, "2", "a-token-of-operators", 202, `{"ids":["2/`, true},
		{core, "2", "another", 401, "", false},
	} {
		code, answer := send(row.admin, row.page, row.token)
		if code != row.code || !strings.HasPrefix(answer, row.answer) || strings.Contains(answer, `"warning":"`) != row.warns {
			t.Errorf("POST /messages of page %s = %d %s, want %d %s…, a warning: %v", row.page, code, answer, row.code, row.answer, row.warns)
		}
	}
	raw, err := schema.Files.ReadFile("v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Components struct {
			Schemas struct {
				Message struct {
					Properties map[string]map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &api); err != nil {
		t.Fatal(err)
	}
	var outbound struct{ Properties map[string]any }
	if raw, err = schema.Files.ReadFile("v1/outbound.json"); err == nil {
		err = json.Unmarshal(raw, &outbound)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(outbound.Properties, "attempts")
	delete(outbound.Properties, "first_code")
	for name := range outbound.Properties {
		if got := api.Components.Schemas.Message.Properties[name]["$ref"]; got != "outbound.json#/properties/"+name {
			t.Errorf("openapi.json has %q for %s, want a reference to outbound.json", got, name)
		}
	}
	if len(api.Components.Schemas.Message.Properties) != len(outbound.Properties) {
		t.Errorf("openapi.json has the fields %v, want those of outbound.json", api.Components.Schemas.Message.Properties)
	}
}

// TestSchemasAreServed: every program serves them.
func TestSchemasAreServed(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	p, err := NewWebhook(t.Context(), WebhookConfig{Settings: webhookSettings(t), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	admin := run(t, p).admin
	for _, name := range []string{"event", "outbound", "dead", "openapi"} {
		want, err := os.ReadFile("../../docs/schema/v1/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if code, body := get(t, admin+"/schema/v1/"+name+".json"); code != 200 || body != string(want) {
			t.Errorf("GET %s = %d %.60q, want the schema", name, code, body)
		}
	}
	if code, _ := get(t, admin+"/schema/v2/event.json"); code != 404 {
		t.Errorf("GET of a schema that there is not = %d, want 404", code)
	}
}

// TestInstagramBot: webhook passes on what people write to an account of Instagram, and a
// dispatcher answers them by the same Send API, with texts of at most 1,000 bytes.
func TestInstagramBot(t *testing.T) {
	t.Parallel()
	const account = "17841"
	api := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
		s.Pages = map[string]*fakeapi.PageSettings{account: {Instagram: true}}
	})})
	b, opt := given(t)
	w, err := NewWebhook(t.Context(), WebhookConfig{
		Settings: load[WebhookSettings](t, "APP_SECRET", "chatclub-test-secret", "VERIFY_TOKEN", "verify-me"), Options: opt,
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDispatcher(t.Context(), DispatcherConfig{
		Settings: load[DispatcherSettings](t, "PAGES_FILE", "given", "FEEDBACK", "false", "GRAPH_URL", "http://fakeapi/v23.0"), Options: opt,
		Tokens: sender.StaticTokens(map[string]string{account: "token-" + account}), Transport: api.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	hook, admin := run(t, w).http+"/webhook", run(t, d).admin

	body := fmt.Appendf(nil, `{"object":"instagram","entry":[{"id":%q,"time":1,"messaging":[{"sender":{"id":"77"},"recipient":{"id":%[1]q},"timestamp":1767225600000,"message":{"mid":"m1","text":"hi"}}]}]}`, account)
	mac := hmac.New(sha256.New, []byte("chatclub-test-secret"))
	mac.Write(body)
	if code, text := request(t, http.MethodPost, hook, body, "sha256="+hex.EncodeToString(mac.Sum(nil))); code != 200 {
		t.Fatalf("POST %s = %d %s, want 200", body, code, text)
	}
	events := memorytest.Drain(t, b, b.Topology().InboundOf(account))
	if len(events) != 1 {
		t.Fatalf("%d events on the queue, want 1", len(events))
	}
	if e, err := message.DecodeEvent(events[0].Body); err != nil || e.Platform != message.Instagram || e.Page != account || e.User != "77" || e.Text != "hi" {
		t.Errorf("event = %s, %v, want what 77 wrote, of Instagram", events[0].Body, err)
	}

	list := fmt.Sprintf(`[{"id":"fits","page":%q,"to":"77","text":%q},{"id":"long","page":%[1]q,"to":"77","text":%[3]q}]`,
		account, strings.Repeat("é", 500), strings.Repeat("é", 501))
	res, err := client.Post(admin+"/messages", "application/json", strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusAccepted {
		t.Fatalf("POST /messages = %d, want 202", res.StatusCode)
	}
	var dead []queue.Message
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && (len(dead) == 0 || api.Ledger().Totals().Accepted == 0); time.Sleep(10 * time.Millisecond) {
		dead = append(dead, memorytest.Drain(t, b, b.Topology().Dead())...)
	}
	if n := api.Ledger().Totals().Accepted; n != 1 || len(dead) != 1 || dead[0].ID != "long" || dead[0].Headers[message.HeaderReason] != "bad_message" {
		t.Errorf("%d accepted, dead = %v, want the one that fits, and the other as bad_message", n, dead)
	}
}
