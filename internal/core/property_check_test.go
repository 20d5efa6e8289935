package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// check compares the database with the model.
func (w *world) check(t *rapid.T) {
	views, err := w.store.Rooms(context.Background(), w.page, 0, 1000)
	if err != nil && !errors.Is(err, rooms.ErrUnknown) { // no event came yet
		t.Fatal(err)
	}
	got, want := map[int]string{}, map[int]string{}
	for _, v := range views {
		got[v.Number] = fmt.Sprint(v.Code, v.Members)
		if v.Members > propCapacity {
			t.Fatalf("room %d has %d members, want at most %d", v.Number, v.Members, propCapacity)
		}
	}
	for number, r := range w.model.rooms {
		want[number] = fmt.Sprint(r.code, len(r.members))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rooms: -want +got\n%s", diff)
	}
}

// settle compares the published messages with the expected ones.
func (w *world) settle() {
	for range 3000 { // the last messages may be on their way
		if w.collect(); !w.isMissing() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for id, texts := range w.got {
		event := strings.Split(id, "/")[1]
		if len(texts) > 1+w.again[event] {
			w.t.Fatalf("%s was published %d times, and a core died over its event %d times", id, len(texts), w.again[event])
		}
		for _, text := range texts {
			if text != texts[0] {
				w.t.Fatalf("%s was %q and then %q", id, texts[0], text)
			}
		}
		if want, ok := w.want[id]; ok && want != texts[0] {
			w.t.Fatalf("%s = %q, want %q", id, texts[0], want)
		} else if !ok && !w.notices[id] {
			w.t.Fatalf("%s = %q, want nothing", id, texts[0])
		}
	}
	for id, text := range w.want {
		if w.got[id] == nil {
			w.t.Fatalf("%s is missing, want %q", id, text)
		}
	}
	for id := range w.notices {
		if w.got[id] == nil {
			w.t.Fatalf("notice %s is missing", id)
		}
	}
}

// isMissing reports whether something expected has not been published.
func (w *world) isMissing() bool {
	for id := range w.want {
		if w.got[id] == nil {
			return true
		}
	}
	for id := range w.notices {
		if w.got[id] == nil {
			return true
		}
	}
	return false
}

func (w *world) collect() {
	for {
		info, err := w.broker.Inspect(context.Background(), w.broker.Topology().Outbound(0))
		if err != nil {
			w.t.Fatal(err)
		}
		select {
		case d := <-w.out.Deliveries():
			o, err := message.DecodeOutbound(d.Body)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := d.Ack(); err != nil {
				w.t.Fatal(err)
			}
			if o.Page == w.page { // else of a page of a failed run
				w.got[o.ID] = append(w.got[o.ID], o.Text)
			}
		default:
			if info.Ready == 0 {
				return
			}
		}
	}
}
