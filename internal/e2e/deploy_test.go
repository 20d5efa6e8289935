package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms/roomstest"
	"chatclub/tools/program"
)

// plan describes a run of the whole system.
type plan struct {
	pages, rooms, users int
	eventsPerSecond     int
	chat                time.Duration
	cores, dispatchers  int
	more                map[string]string // settings of every program beside the defaults
	dispatcher, core    map[string]string // and of these
	latency             string            // of the platform; empty: a quick one
	amqpURL             string            // empty: the one that all tests share
	databaseURL         string            // empty: a PostgreSQL schema of its own
}

// secret signs the simulated webhooks of every test.
const secret = "e2e-secret"

// deployment is the whole system as processes.
type deployment struct {
	plan
	fake, webhook *process
	cores         []*process
	dispatchers   []*process

	hook, fakeAddr, graph, pagesFile string
	prefix                           string
}

// deploy starts everything; the simulated users begin as soon as the webhook answers.
func deploy(t *testing.T, p plan) *deployment {
	t.Helper()
	if p.databaseURL == "" {
		p.databaseURL = roomstest.DSN(t)
	}
	hook := freeAddr(t)
	d := platform(t, p, map[string]string{
		"APP_SECRET": secret, "WEBHOOK_URL": "http://" + hook + "/webhook",
		"PAGES": strconv.Itoa(p.pages), "ROOMS": strconv.Itoa(p.rooms), "USERS": strconv.Itoa(p.users),
		"EVENTS_PER_SECOND": strconv.Itoa(p.eventsPerSecond), "DURATION": p.chat.String(),
	})
	d.startWebhook(t, hook, nil)
	for range p.cores {
		d.startCore(t)
	}
	for range p.dispatchers {
		d.startDispatcher(t)
	}
	return d
}

// platform starts the fake platform alone, with these settings beside its own.
func platform(t *testing.T, p plan, more map[string]string) *deployment {
	t.Helper()
	if p.amqpURL == "" {
		p.amqpURL = rabbittest.URL(t)
	}
	d := &deployment{plan: p, prefix: rabbittest.Prefix(t), pagesFile: filepath.Join(t.TempDir(), "pages.json"), fakeAddr: freeAddr(t)}
	t.Cleanup(func() { d.deleteQueues(t) }) // when all programs have ended
	d.graph = "http://" + d.fakeAddr + "/v23.0"
	environ := map[string]string{"HTTP_ADDR": d.fakeAddr, "PAGES_FILE_OUT": d.pagesFile, "LATENCY": cmp.Or(p.latency, "lognormal:40ms,150ms")}
	maps.Copy(environ, more)
	d.fake = start(t, "fakeapi", environ)
	return d
}

// pageIDs returns the pages that the platform made.
func (d *deployment) pageIDs(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(d.pagesFile)
	var tokens map[string]string
	if err == nil {
		err = json.Unmarshal(raw, &tokens)
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(tokens))
}

// partitions are few, because each is a queue of the tests' common broker.
const partitions = 4

// deleteQueues deletes the deployment's queues, and the lanes of its pages.
func (d *deployment) deleteQueues(t *testing.T) {
	t.Helper()
	top := queue.Topology{Prefix: d.prefix, Partitions: partitions}
	ctx, cancel := context.WithTimeout(context.Background(), program.Patience)
	defer cancel()
	if err := rabbit.Delete(ctx, d.amqpURL, top); err != nil {
		t.Error(err)
	}
}

func (d *deployment) environ(more map[string]string) map[string]string {
	e := map[string]string{"AMQP_URL": d.amqpURL, "QUEUE_PREFIX": d.prefix, "PARTITIONS": strconv.Itoa(partitions)}
	maps.Copy(e, d.more)
	maps.Copy(e, more)
	return e
}

// startWebhook starts a webhook at an address, with these settings beside its own.
func (d *deployment) startWebhook(t *testing.T, addr string, more map[string]string) {
	t.Helper()
	d.hook = "http://" + addr + "/webhook"
	environ := d.environ(map[string]string{"HTTP_ADDR": addr, "APP_SECRET": secret, "VERIFY_TOKEN": "verify"})
	maps.Copy(environ, more)
	d.webhook = start(t, "webhook", environ)
}

func (d *deployment) startCore(t *testing.T) *process {
	t.Helper()
	e := d.environ(map[string]string{"DATABASE_URL": d.databaseURL, "ROOM_CAPACITY": strconv.Itoa(d.users)})
	maps.Copy(e, d.core)
	p := start(t, "core", e)
	d.cores = append(d.cores, p)
	return p
}

func (d *deployment) startDispatcher(t *testing.T) *process {
	t.Helper()
	e := d.environ(map[string]string{"PAGES_FILE": d.pagesFile, "GRAPH_URL": d.graph})
	maps.Copy(e, d.dispatcher)
	p := start(t, "dispatcher", e)
	d.dispatchers = append(d.dispatchers, p)
	return p
}

// totals are the sums of the ledger.
type totals struct {
	Events, Expected, Accepted, Refused, Lost, Duplicated, Unexpected, Pending, Inversions int64
}

func (d *deployment) totals() (totals, error) {
	code, body, err := get("http://" + d.fakeAddr + "/ledger")
	if err != nil {
		return totals{}, err
	}
	if code != 200 {
		return totals{}, fmt.Errorf("GET /ledger = %d: %s", code, body)
	}
	var answer struct {
		Totals totals `json:"totals"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return totals{}, fmt.Errorf("GET /ledger: %w", err)
	}
	return answer.Totals, nil
}

// awaitSent waits until n sends were accepted.
func (d *deployment) awaitSent(t *testing.T, n int64) totals {
	t.Helper()
	var got totals
	program.Eventually(t, fmt.Sprintf("%d sends accepted", n), func() (err error) {
		if got, err = d.totals(); err == nil && got.Accepted < n {
			err = fmt.Errorf("ledger: %+v", got)
		}
		return err
	})
	return got
}

// settle waits until the users have written all and every copy has arrived,
// and returns the ledger then.
func (d *deployment) settle(t *testing.T) totals {
	t.Helper()
	var got totals
	want := int64(d.eventsPerSecond) * int64(d.chat/time.Second)
	want += int64(d.pages * d.rooms * d.users) // each has joined
	program.Eventually(t, "every copy has arrived", func() (err error) {
		got, err = d.totals()
		if err == nil && (got.Events < want || got.Pending > 0) {
			err = fmt.Errorf("%d events wanted, ledger: %+v", want, got)
		}
		return err
	})
	t.Logf("ledger: %+v", got)
	return got
}

// checkComplete fails unless nothing is lost, at most duplicates are doubled, nothing
// came unannounced, and no copy was overtaken. It is for runs in which nothing is killed.
func checkComplete(t *testing.T, got totals, duplicates int64) {
	t.Helper()
	checkLedger(t, got, duplicates, false)
}

// checkKilled is checkComplete after a kill.
func checkKilled(t *testing.T, got totals, duplicates int64) {
	t.Helper()
	checkLedger(t, got, duplicates, true)
}

// checkOrder fails if more copies were overtaken than may be.
func checkOrder(t *testing.T, got totals, most int64) {
	t.Helper()
	if got.Inversions > most {
		t.Errorf("overtaken = %d, want at most %d", got.Inversions, most)
	}
}

func checkLedger(t *testing.T, got totals, duplicates int64, killed bool) {
	t.Helper()
	checkOrder(t, got, ledger.MostOvertaken(killed, duplicates))
	if got.Lost != 0 {
		t.Errorf("lost = %d, want 0", got.Lost)
	}
	if got.Unexpected != 0 {
		t.Errorf("unexpected = %d, want 0", got.Unexpected)
	}
	if got.Duplicated > duplicates {
		t.Errorf("duplicated = %d, want at most %d", got.Duplicated, duplicates)
	}
	if got.Accepted != got.Expected+got.Duplicated {
		t.Errorf("accepted %d is not expected %d + duplicated %d", got.Accepted, got.Expected, got.Duplicated)
	}
}
