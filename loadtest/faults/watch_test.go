package faults

import (
	"testing"
	"time"

	"chatclub/fakeapi/ledger"
)

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// page is what the ledger says of one page.
func page(id string, accepted, duplicated, pending int64) ledger.PageReport {
	return ledger.PageReport{Page: id, Totals: ledger.Counts{Accepted: accepted, Duplicated: duplicated, Pending: pending}}
}

// A page is silent from when it awaits copies until a new one comes. What has come
// before is no sign of life, and one that awaits nothing is not silent.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.note(at(0), []ledger.PageReport{page("a", 10, 0, 5), page("b", 0, 0, 0)})
	w.note(at(1), []ledger.PageReport{page("a", 12, 2, 5), page("b", 0, 0, 0)}) // two that had come before
	w.note(at(3), []ledger.PageReport{page("a", 12, 2, 5), page("b", 0, 0, 1)})
	if w.worst != 3*time.Second {
		t.Errorf("silence = %v, want 3s: what has come before is no new copy", w.worst)
	}
	w.note(at(4), []ledger.PageReport{page("a", 13, 2, 5), page("b", 0, 0, 1)})
	w.note(at(5), []ledger.PageReport{page("a", 14, 2, 5), page("b", 1, 0, 0)})
	w.note(at(50), []ledger.PageReport{page("a", 20, 2, 0), page("b", 1, 0, 0)})
	if w.worst != 45*time.Second {
		t.Errorf("silence = %v, want the 45s from 5 on", w.worst)
	}
	w = newWatch()
	w.note(at(0), []ledger.PageReport{page("a", 10, 0, 5)})
	w.note(at(2), []ledger.PageReport{page("a", 10, 0, 0)}) // it awaits nothing: what was awaited is excused
	w.note(at(60), []ledger.PageReport{page("a", 10, 0, 0)})
	if w.worst != 2*time.Second {
		t.Errorf("silence = %v, want 2s", w.worst)
	}
}

// Back is when the last of the pages that were silent at the fault's end got a copy.
func TestBack(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.note(at(0), []ledger.PageReport{page("a", 1, 0, 5), page("b", 1, 0, 5), page("c", 1, 0, 0)})
	w.heal(at(10))
	w.note(at(11), []ledger.PageReport{page("a", 2, 0, 5), page("b", 1, 0, 5), page("c", 1, 0, 5)})
	if w.isBack() {
		t.Error("all are back while one is silent")
	}
	w.note(at(14), []ledger.PageReport{page("a", 2, 0, 5), page("b", 2, 0, 5), page("c", 1, 0, 5)})
	if !w.isBack() || w.back != 4*time.Second {
		t.Errorf("isBack() = %v after %v, want true after 4s", w.isBack(), w.back)
	}
}
