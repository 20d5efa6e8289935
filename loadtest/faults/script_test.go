package faults

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func steps(seed uint64, n int) (all []Step) {
	s := NewScript(seed, Table())
	for range n {
		all = append(all, s.Next())
	}
	return all
}

// A seed is a script: the same again, and another of another one.
func TestSeedDecidesTheScript(t *testing.T) {
	t.Parallel()
	first := steps(7, 200)
	if diff := cmp.Diff(first, steps(7, 200)); diff != "" {
		t.Errorf("two scripts of one seed differ (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, steps(8, 200)) {
		t.Error("scripts of two seeds are equal")
	}
}

// Each round has every fault once, and no two rounds have the same order.
func TestRoundsHaveEveryFault(t *testing.T) {
	t.Parallel()
	n := len(Table())
	all := steps(1, 3*n)
	var orders []string
	for round := range slices.Chunk(all, n) {
		seen := make(map[string]bool)
		order := ""
		for _, s := range round {
			seen[s.Fault.Name] = true
			order += s.Fault.Name + " "
			if s.Length < s.Fault.Length || s.Length > s.Fault.Length*3/2 {
				t.Errorf("%s lasts %v, want %v and at most half of it more", s.Fault.Name, s.Length, s.Fault.Length)
			}
		}
		if len(seen) != n {
			t.Errorf("a round has %d different faults, want all %d: %v", len(seen), n, slices.Sorted(maps.Keys(seen)))
		}
		orders = append(orders, order)
	}
	if orders[0] == orders[1] || orders[1] == orders[2] {
		t.Error("two rounds have the same order")
	}
}

// Names are those of the table, and what needs more nodes is named, not forgotten.
func TestSelect(t *testing.T) {
	t.Parallel()
	names := func(list []Fault) (all []string) {
		for _, f := range list {
			all = append(all, f.Name)
		}
		return all
	}
	can, cannot, err := Select("kill-*,cut-off-node,stop-core", 1)
	want := []string{"kill-webhook", "kill-core", "kill-dispatcher", "kill-all", "stop-core", "kill-broker"}
	if diff := cmp.Diff(want, names(can)); diff != "" || err != nil {
		t.Errorf("Select on one node (-want +got), %v:\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"kill-node", "cut-off-node"}, cannot); diff != "" {
		t.Errorf("what one node cannot (-want +got):\n%s", diff)
	}
	if can, cannot, err := Select("*", 3); err != nil || len(can) != len(Table()) || len(cannot) != 0 {
		t.Errorf("Select of all on three nodes = %d of %d, cannot %v, %v", len(can), len(Table()), cannot, err)
	}
	if _, _, err := Select("kill-core,kil-core,x*", 3); err == nil || !strings.Contains(err.Error(), `"kil-core", "x*"`) || strings.Contains(err.Error(), `"kill-core"`) {
		t.Errorf("Select of unknown names = %v, want an error with these alone", err)
	}
	if _, _, err := Select("*-node", 0); err == nil {
		t.Error("Select of a name with a * before its end = nil, want an error")
	}
	if _, _, err := Select("freeze-node", 0); err == nil {
		t.Error("Select of nothing that can be made = nil, want an error")
	}
}

// Every row of the table can be told from the others, and has bounds.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, f := range Table() {
		if seen[f.Name] || f.Name == "" || f.Title == "" {
			t.Errorf("fault %q: the name is not its own, or something is empty", f.Name)
		}
		seen[f.Name] = true
		if f.Length <= 0 || f.Nodes < 1 || f.Bound.Silence <= 0 || f.Bound.Back <= 0 {
			t.Errorf("%s: length, nodes, silence and back must be above 0: %+v", f.Name, f)
		}
	}
}
