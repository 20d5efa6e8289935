package report

import "testing"

func TestVerdict(t *testing.T) {
	t.Parallel()
	expect := func(text string, met *bool) Expectation { return Expectation{Text: text, Of: Own, Met: met, Got: "5"} }
	good, bad, open := expect("good", new(true)), expect("bad", new(false)), expect("open", nil)
	ours := func(s Status, reason string) Run {
		return Run{Figures: Figures{Strategy: Own}, Status: s, Reason: reason}
	}
	theirs := func(s Status, reason string) Run {
		return Run{Figures: Figures{Strategy: "other"}, Status: s, Reason: reason}
	}
	lossy := ours(Complete, "")
	lossy.Lost = new(int64(1200))
	for _, c := range []struct {
		name string
		r    Report
		want string
	}{
		{"all met", Report{Runs: []Run{ours(Complete, "")}, Expectations: []Expectation{good, good}}, "PASS: 2 of 2 expectations met"},
		{"one not met", Report{Runs: []Run{ours(Complete, "")}, Expectations: []Expectation{good, bad}}, "FAIL: chatclub: bad (5)"},
		{"several not met", Report{Expectations: []Expectation{bad, bad, bad}}, "FAIL: chatclub: bad (5), and 2 more"},
		{"messages lost", Report{Runs: []Run{lossy}, Expectations: []Expectation{good}}, "FAIL: chatclub lost 1,200 messages"},
		{"not met, however doubtful", Report{Unfinished: "stopped", Runs: []Run{ours(Inconclusive, "busy")}, Expectations: []Expectation{open, bad}}, "FAIL: chatclub: bad (5)"},
		{"a busy machine", Report{Runs: []Run{ours(Inconclusive, "busy")}, Expectations: []Expectation{open, good}}, "NO VERDICT: busy. Try again on a quiet machine."},
		{"doubtful, and nothing open", Report{Runs: []Run{ours(Inconclusive, "busy")}, Expectations: []Expectation{good}}, "PASS: 1 of 1 expectations met"},
		{"others' machine was busy", Report{Runs: []Run{ours(Complete, ""), theirs(Inconclusive, "busy")}, Expectations: []Expectation{good}}, "PASS: 1 of 1 expectations met"},
		{"one did not run", Report{Runs: []Run{ours(Complete, ""), theirs(Failed, "refused")}, Expectations: []Expectation{good}}, "NO VERDICT: other: refused"},
		{"one did not run, and so others did not", Report{Unfinished: "1 of 9 has run", Runs: []Run{ours(Failed, "no broker")}}, "NO VERDICT: chatclub: no broker"},
		{"stopped early", Report{Runs: []Run{ours(Interrupted, "stopped after 1s of 20s")}, Expectations: []Expectation{open}}, "NO VERDICT: stopped after 1s of 20s"},
		{"some still to run", Report{Unfinished: "1 of 9 has run", Runs: []Run{ours(Complete, "")}, Expectations: []Expectation{good}}, "NO VERDICT: 1 of 9 has run"},
		{"nobody knows", Report{Runs: []Run{ours(Complete, "")}, Expectations: []Expectation{good, open}}, "NO VERDICT: chatclub: open (5)"},
		{"ours did not run", Report{Runs: []Run{theirs(Complete, "")}}, "NO VERDICT: nothing was expected: only runs of chatclub are judged"},
	} {
		if got := c.r.Verdict().String(); got != c.want {
			t.Errorf("%s: verdict = %q, want %q", c.name, got, c.want)
		}
	}
}
