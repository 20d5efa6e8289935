package fakeapi

import (
	"context"
	"net/http"
	"testing"

	"chatclub/fakeapi/ledger"
)

type answering200 struct{}

func (answering200) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// TestOrderIsThatOfPosting: a webhook that is late follows those that were
// answered before it was posted, although it was announced first.
func TestOrderIsThatOfPosting(t *testing.T) {
	t.Parallel()
	a, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSource(SourceConfig{API: a, URL: "http://hook.test/", Secret: "s", Transport: answering200{}})
	if err != nil {
		t.Fatal(err)
	}
	late, early := &webhook{}, &webhook{}
	late.announce(a, happening{page: "1", user: "7", mid: "late", text: "x"}, []string{"42"})
	early.announce(a, happening{page: "1", user: "7", mid: "early", text: "x"}, []string{"42"})
	if !s.deliver(context.Background(), early) || !s.deliver(context.Background(), late) {
		t.Fatal("deliver = false, want true")
	}
	for _, id := range []string{"1/late/42", "1/early/42"} {
		a.book.Page("1").Record(a.now(), ledger.Send{Recipient: "42", ID: id})
	}
	if got := a.book.Totals().Inversions; got != 1 {
		t.Errorf("inversions = %d, want 1", got)
	}
}
