package queue

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, tc := range map[string]struct {
		change func(*Message)
		valid  bool
	}{
		"usual":                 {func(*Message) {}, true},
		"longest id":            {func(m *Message) { m.ID = long[1:] }, true},
		"no id":                 {func(m *Message) { m.ID = "" }, false},
		"id too long":           {func(m *Message) { m.ID = long }, false},
		"no queue":              {func(m *Message) { m.Queue = "" }, false},
		"queue's name too long": {func(m *Message) { m.Queue = long }, false},
		"largest body":          {func(m *Message) { m.Body = make([]byte, 16<<20) }, true},
		"body too large":        {func(m *Message) { m.Body = make([]byte, 16<<20+1) }, false},
		"largest headers":       {func(m *Message) { m.Headers = map[string]string{"a": strings.Repeat("x", 2999)} }, true},
		"headers too large": {func(m *Message) {
			m.Headers = map[string]string{"a": strings.Repeat("x", 2000), "b": long + long + long + long}
		}, false},
		"header's name too long":  {func(m *Message) { m.Headers = map[string]string{long: ""} }, false},
		"headers without a value": {func(m *Message) { m.Headers = map[string]string{"a": ""} }, true},
	} {
		m := Message{Queue: "q", ID: "1"}
		tc.change(&m)
		if err := m.Validate(); errors.Is(err, ErrInvalid) == tc.valid || tc.valid && err != nil {
			t.Errorf("%s: Validate() = %v, want valid: %v", name, err, tc.valid)
		}
	}
}

// partly is a broker that does not confirm messages for some of its queues.
type partly struct {
	script
	down map[string]bool
	took []string // ids
	tags []uint64
}

func (p *partly) Publish(_ context.Context, msgs ...Message) error {
	e := &PublishError{Errs: make([]error, len(msgs)), Err: ErrUnavailable}
	failed := false
	for i, m := range msgs {
		if p.down[m.Queue] {
			e.Errs[i], failed = ErrUnavailable, true
		} else {
			p.took = append(p.took, m.ID)
		}
	}
	if failed {
		return e
	}
	return nil
}
func (p *partly) Ack(tag uint64) error { p.tags = append(p.tags, tag); return nil }

// What is confirmed is acknowledged, whatever becomes of the rest, and transferred
// again is only what is not.
func TestTransferAllPartly(t *testing.T) {
	t.Parallel()
	p := &partly{down: map[string]bool{"b": true}}
	transfer := func(tag uint64, to ...Message) Transfer {
		return Transfer{Delivery: NewDelivery(p, p, tag, Message{Queue: "x.outbound"}, false), To: to}
	}
	list := []Transfer{
		transfer(1, Message{Queue: "a", ID: "1"}),
		transfer(2, Message{Queue: "b", ID: "2"}),
		transfer(3, Message{Queue: "a", ID: "3"}, Message{Queue: "b", ID: "3 too"}),
		transfer(4, Message{Queue: "a"}), // has no id
		transfer(5, Message{Queue: "a", ID: "5"}),
		transfer(6, Message{Queue: "a", ID: "6"}),
	}
	if err := list[5].Delivery.Ack(); err != nil {
		t.Fatal(err)
	}
	check := func(want []error, tags []uint64, took ...string) {
		t.Helper()
		errs := TransferAll(t.Context(), p, list)
		for i, err := range errs {
			if !errors.Is(err, want[i]) {
				t.Errorf("transfer %d: %v, want %v", i+1, err, want[i])
			}
		}
		if diff := cmp.Diff(tags, p.tags); diff != "" {
			t.Errorf("acknowledged (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(took, p.took); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	}
	check([]error{nil, ErrUnavailable, ErrUnavailable, ErrInvalid, nil, ErrSettled}, []uint64{6, 1, 5}, "1", "3", "5")
	for i, live := range []bool{false, true, true, true, false, false} {
		if got := list[i].Delivery.Live(); got != live {
			t.Errorf("transfer %d: Live() = %v, want %v", i+1, got, live)
		}
	}
	p.down = nil
	check([]error{ErrSettled, nil, nil, ErrInvalid, ErrSettled, ErrSettled}, []uint64{6, 1, 5, 2, 3}, "1", "3", "5", "2", "3 too")
}

// A broker that does not say which messages its error concerns means all.
func TestTransferAllFailsWhole(t *testing.T) {
	t.Parallel()
	s := &script{publishErr: ErrUnavailable}
	list := []Transfer{{Delivery: NewDelivery(s, s, 1, Message{}, false), To: []Message{{Queue: "a", ID: "1"}}}}
	if errs := TransferAll(t.Context(), s, list); !errors.Is(errs[0], ErrUnavailable) || s.acked != 0 {
		t.Errorf("TransferAll() = %v with %d acknowledged, want %v and 0", errs, s.acked, ErrUnavailable)
	}
}
