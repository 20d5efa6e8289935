package queue

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
)

func TestTopologyNames(t *testing.T) {
	t.Parallel()
	top := Topology{Prefix: "x", Lanes: 2}
	var got []string
	for _, s := range top.Specs() {
		got = append(got, s.Name)
		if (s.Name == "x.lane.00" || s.Name == "x.lane.01") != s.SingleActive {
			t.Errorf("%s: single active = %v", s.Name, s.SingleActive)
		}
		if (s.Name == "x.dead") != (s.DeadLetter == "") {
			t.Errorf("%s: dead letters go to %q", s.Name, s.DeadLetter)
		}
	}
	want := []string{"x.dead", "x.inbound", "x.outbound", "x.outbound.bulk", "x.lane.00", "x.lane.01"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Specs (-want +got):\n%s", diff)
	}
}

func TestLaneOfSpreadsPages(t *testing.T) {
	t.Parallel()
	top := Topology{Prefix: "x", Lanes: 8}
	n := map[string]int{}
	for i := range 8000 {
		n[top.LaneOf(strings.Repeat("p", i%7)+string(rune('a'+i%26))+strings.Repeat("q", i/26%50))]++
	}
	for i := range 8 {
		if got := n[top.Lane(i)]; got < 500 || got > 1500 {
			t.Errorf("pages on %s = %d of 8000, want about 1000", top.Lane(i), got)
		}
	}
	if a, b := top.LaneOf("page"), top.LaneOf("page"); a != b {
		t.Errorf("LaneOf is not stable: %s, %s", a, b)
	}
}

func TestTopologyValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	if err := (Topology{Prefix: "chatclub", Lanes: 64}).Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
	err := Topology{Prefix: "amq.x", Lanes: 1000}.Validate()
	if err == nil || !strings.Contains(err.Error(), "prefix") || !strings.Contains(err.Error(), "lanes") {
		t.Errorf("Validate() = %v, want both faults named", err)
	}
}

// script is a broker and settler that fail on request and count.
type script struct {
	Broker
	publishErr, ackErr error
	published, acked   int
}

func (s *script) Publish(context.Context, ...Message) error {
	if s.publishErr != nil {
		return s.publishErr
	}
	s.published++
	return nil
}
func (s *script) Topology() Topology { return Topology{Prefix: "x", Lanes: 1} }
func (s *script) Ack(uint64) error   { s.acked++; return s.ackErr }
func (s *script) Live() bool         { return true }

func TestMoveThatFailsLeavesTheDeliveryUnsettled(t *testing.T) {
	t.Parallel()
	s := &script{publishErr: ErrUnavailable}
	d := NewDelivery(s, s, 1, Message{Queue: "x.outbound", ID: "1"}, false)
	move := func() error {
		return MoveAll(t.Context(), s, []Transfer{{Delivery: d, To: []Message{{Queue: "q", ID: "1"}}}})[0]
	}
	if err := move(); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("MoveAll() = %v, want ErrUnavailable", err)
	}
	if !d.Live() || s.acked != 0 {
		t.Fatalf("after a failed MoveAll: live %v, acked %d, want true, 0", d.Live(), s.acked)
	}
	s.publishErr = nil
	if err := d.DeadLetter(t.Context(), message.Death{Reason: message.ReasonGone}); err != nil {
		t.Fatalf("DeadLetter() = %v, want nil", err)
	}
	for name, settle := range map[string]func() error{
		"Ack": d.Ack, "MoveAll": move,
	} {
		if err := settle(); !errors.Is(err, ErrSettled) {
			t.Errorf("%s after DeadLetter = %v, want ErrSettled", name, err)
		}
	}
	if s.published != 1 || s.acked != 1 {
		t.Errorf("published %d, acked %d, want 1 and 1", s.published, s.acked)
	}
}
