package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/tools/private"
)

// A new node of RabbitMQ 4 that is told of others waits until one of them answers.
// The nodes start one after another, so each is told only of those before it.
func TestNodesJoinThoseBeforeThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := new(Cluster)
	for _, name := range []string{"a", "b", "c"} {
		c.nodes = append(c.nodes, &node{Node: private.Node{Name: name, Dir: filepath.Join(dir, name)}})
	}
	if err := c.write("cookie"); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, n := range c.nodes {
		conf, err := os.ReadFile(filepath.Join(n.Dir, "rabbitmq.conf"))
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for line := range strings.Lines(string(conf)) {
			if key, value, ok := strings.Cut(line, " = "); ok && strings.HasPrefix(key, "cluster_formation.classic_config.nodes.") {
				told = append(told, strings.TrimSpace(value))
			}
		}
		got = append(got, told)
	}
	want := [][]string{nil, {"a@localhost", "b@localhost"}, {"a@localhost", "b@localhost", "c@localhost"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes that a, b and c are told of (-want +got):\n%s", diff)
	}
}
