package rabbit

import (
	"strings"
	"testing"
)

// The process of a queue is named after its virtual host.
func TestHeal(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"amqp://h/": `"%2F_p.outbound.01"`, "amqp://h": `"%2F_p.outbound.01"`, "amqp://h/mine": `"mine_p.outbound.01"`,
	} {
		b := &Broker{cfg: Config{URLs: []string{url}}}
		if got := b.Heal("p.outbound.01"); !strings.Contains(got, "list_to_existing_atom("+want+")") {
			t.Errorf("Heal() with %s = %q, want the process %s", url, got, want)
		}
	}
}
