package rabbit

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// record is a connection that notes its writes.
type record struct {
	net.Conn
	writes []string
	closed bool
	err    error
}

func (r *record) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(p))
	return len(p), r.err
}
func (r *record) Close() error                   { r.closed = true; return nil }
func (*record) SetWriteDeadline(time.Time) error { return nil }

// say writes each word by itself.
func say(t *testing.T, s *socket, words ...string) {
	t.Helper()
	for _, w := range words {
		if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
			t.Errorf("Write(%q) = %d, %v, want %d, nil", w, n, err, len(w))
		}
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	var r record
	s := &socket{Conn: &r}
	say(t, s, "a", "b")
	for _, words := range [][]string{{"c", "d"}, {}, {"e"}} {
		if err := s.together(func() error { say(t, s, words...); return nil }); err != nil {
			t.Errorf("together(%v) = %v, want nil", words, err)
		}
	}
	fault := errors.New("fault")
	if err := s.together(func() error { say(t, s, "f", "g"); return fault }); !errors.Is(err, fault) {
		t.Errorf("together(fault) = %v, want it", err)
	}
	say(t, s, "h")
	if diff := cmp.Diff([]string{"a", "b", "cd", "e", "fg", "h"}, r.writes); diff != "" || r.closed {
		t.Errorf("closed %t; writes (-want +got):\n%s", r.closed, diff)
	}
}

// One within another is written with that, in order.
func TestTogetherWithinTogether(t *testing.T) {
	t.Parallel()
	var r record
	s := &socket{Conn: &r}
	inner := func(word string) error { return s.together(func() error { say(t, s, word); return nil }) }
	if err := s.together(func() error { return errors.Join(inner("a"), inner("b")) }); err != nil {
		t.Fatal(err)
	}
	say(t, s, "c")
	if diff := cmp.Diff([]string{"ab", "c"}, r.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestTogetherIsBounded(t *testing.T) {
	t.Parallel()
	var r record
	s := &socket{Conn: &r}
	word := strings.Repeat("x", maxHeld/4)
	if err := s.together(func() error { say(t, s, word, word, word, word, "y", "z"); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(r.writes) != 3 || len(r.writes[0]) != maxHeld || r.writes[1] != "y" || r.writes[2] != "z" {
		t.Errorf("%d writes, the first of %d bytes, want 3, the first of %d", len(r.writes), len(r.writes[0]), maxHeld)
	}
}

// TestTogetherFails: those who wrote were told that all went well, so the
// connection ends.
func TestTogetherFails(t *testing.T) {
	t.Parallel()
	r := record{err: errors.New("broken pipe")}
	s := &socket{Conn: &r}
	if err := s.together(func() error { say(t, s, "a"); return nil }); !errors.Is(err, r.err) || !r.closed {
		t.Errorf("together = %v, closed %t, want %v and true", err, r.closed, r.err)
	}
}

// TestTogetherAtOnce: nothing is lost, doubled or reordered when several write
// together at once.
func TestTogetherAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r record
		s := &socket{Conn: &r}
		const writers, each = 8, 100
		done := make(chan struct{})
		for i := range writers {
			go func() {
				for k := range each {
					if err := s.together(func() error { say(t, s, string([]byte{byte('a' + i), byte(k)})); return nil }); err != nil {
						t.Error(err)
					}
				}
				done <- struct{}{}
			}()
		}
		for range writers {
			<-done
		}
		var next [writers]byte
		all := []byte(strings.Join(r.writes, ""))
		for i := 0; i+1 < len(all); i += 2 {
			w := all[i] - 'a'
			if all[i+1] != next[w] {
				t.Fatalf("writer %d wrote frame %d, want %d", w, all[i+1], next[w])
			}
			next[w]++
		}
		if len(all) != 2*writers*each {
			t.Errorf("%d bytes, want %d", len(all), 2*writers*each)
		}
	})
}
