package trial

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A running deployment's pages take the plan's pages' places, each the same
// wherever it is named.
func TestPlanOnOtherPages(t *testing.T) {
	t.Parallel()
	p := Plan{
		Streams: []Stream{{Pages: Pages(1, 2)}, {Pages: Pages(2, 2)}},
		Foreign: []Foreign{{Page: "1"}},
	}
	got, err := p.on([]string{"a", "b", "c", "d"})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]Page{{{"a", 1}, {"b", 1}}, {{"b", 1}, {"c", 1}}}
	if diff := cmp.Diff(want, [][]Page{got.Streams[0].Pages, got.Streams[1].Pages}); diff != "" || got.Foreign[0].Page != "a" {
		t.Errorf("pages: %s, foreign on %s, want on a", diff, got.Foreign[0].Page)
	}
	if p.Streams[0].Pages[0].ID != "1" || p.Foreign[0].Page != "1" {
		t.Error("the plan itself was changed")
	}
	if _, err := p.on([]string{"a", "b"}); err == nil {
		t.Error("two pages for three = nil, want an error")
	}
}
