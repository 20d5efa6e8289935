package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/service"
)

var complete = map[string]string{
	"AMQP_URL":     "amqp://u:geheim@a:5672/, amqps://u:geheim@b/v",
	"APP_SECRET":   "s",
	"VERIFY_TOKEN": "v",
	"PAGES_FILE":   "pages.json",
}

// with is complete with some variables changed.
func with(pairs ...string) map[string]string {
	environ := maps.Clone(complete)
	for pair := range slices.Chunk(pairs, 2) {
		environ[pair[0]] = pair[1]
	}
	return environ
}

// fault returns the error of service.Load as text.
func fault[T any](environ map[string]string) string {
	if _, err := service.Load[T](nil, environ, nil); err != nil {
		return err.Error()
	}
	return ""
}

func TestSettingsDefaultsAreValid(t *testing.T) {
	t.Parallel()
	for name, got := range map[string]string{
		"webhook":    fault[WebhookSettings](complete),
		"core":       fault[CoreSettings](complete),
		"dispatcher": fault[DispatcherSettings](complete),
	} {
		if got != "" {
			t.Errorf("%s with what is required = %s, want no fault", name, got)
		}
	}
}

func TestSettingsFaults(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, got, want string
	}{
		{"webhook empty", fault[WebhookSettings](map[string]string{}), "settings: APP_SECRET: must be set; VERIFY_TOKEN: must be set; AMQP_URL: must be set"},
		{"core empty", fault[CoreSettings](map[string]string{}), "settings: AMQP_URL: must be set"},
		{"dispatcher empty", fault[DispatcherSettings](map[string]string{}), "settings: PAGES_FILE: must be set; AMQP_URL: must be set"},
		{"not a number", fault[DispatcherSettings](with("PREFETCH", "abc")), `settings: PREFETCH: "abc" is not a whole number`},
		{"amqp", fault[CoreSettings](with("AMQP_URL", "http://u:geheim@h,amqp://")), "settings: AMQP_URL: address 1 is not of the form amqp://user:password@host:5672/vhost; AMQP_URL: address 2 is not of the form amqp://user:password@host:5672/vhost"},
		{"amqp unparsable", fault[CoreSettings](with("AMQP_URL", "amqp://u:geheim%zz@h")), "settings: AMQP_URL: address 1 is not of the form amqp://user:password@host:5672/vhost"},
		{"amqp commas", fault[CoreSettings](with("AMQP_URL", " , ")), "settings: AMQP_URL: must be set"},
		{"queues", fault[CoreSettings](with("QUEUE_PREFIX", "a b", "PARTITIONS", "0")), `settings: QUEUE_PREFIX: "a b" must have 1 to 100 characters, no white space, and not begin with amq.; PARTITIONS: 0 must be 1 to 200`},
		{"addresses", fault[WebhookSettings](with("HTTP_ADDR", "8080", "ADMIN_ADDR", ":70000")), `settings: HTTP_ADDR: "8080" is not an address such as :8080 or 127.0.0.1:8080; ADMIN_ADDR: port "70000" must be 0 to 65535`},
		{"deletion", fault[WebhookSettings](with("DELETION_URL", "chat.example")), "settings: DELETION_URL: must be an address such as https://host/path, without user, query or fragment"},
		{"deadline", fault[WebhookSettings](with("PUBLISH_TIMEOUT", "5s")), "settings: PUBLISH_TIMEOUT: 5s must be 10ms to 4.999s"},
		{"rooms", fault[CoreSettings](with("ROOM_CAPACITY", "101", "DATABASE_URL", "mysql://geheim")), "settings: DATABASE_URL: must begin with sqlite: or postgres://; ROOM_CAPACITY: 101 must be 2 to 100"},
		{"database", fault[CoreSettings](with("DATABASE_URL", "sqlite:")), "settings: DATABASE_URL: names no database"},
		{"graph", fault[DispatcherSettings](with("GRAPH_URL", "https://graph?access_token=geheim")), "settings: GRAPH_URL: must be an address such as https://host/path, without user, query or fragment"},
		{"ttl", fault[DispatcherSettings](with("MESSAGE_TTL", "0")), "settings: MESSAGE_TTL: 0s must be 1s to 24h"},
		{"call longer than shutdown", fault[DispatcherSettings](with("CALL_TIMEOUT", "20s")), "settings: CALL_TIMEOUT: 20s must be below SHUTDOWN_TIMEOUT, 20s"},
		{"least values", fault[DispatcherSettings](with("PREFETCH", "63", "MAX_IN_FLIGHT", "1", "LANE_PREFETCH", "511")), "settings: PREFETCH: 63 must be 64 to 65535; MAX_IN_FLIGHT: 1 must be 2 to 65535; LANE_PREFETCH: 511 must be 512 to 65535"},
	}
	for _, row := range rows {
		if row.got != row.want {
			t.Errorf("%s: Load = %s\nwant %s", row.name, row.got, row.want)
		}
		if strings.Contains(row.got, "geheim") {
			t.Errorf("%s: Load prints a password: %s", row.name, row.got)
		}
	}
}

func TestBrokerURLs(t *testing.T) {
	t.Parallel()
	got := BrokerSettings{AMQPURL: service.Secret(complete["AMQP_URL"])}.URLs()
	if diff := cmp.Diff([]string{"amqp://u:geheim@a:5672/", "amqps://u:geheim@b/v"}, got); diff != "" {
		t.Errorf("URLs: -want +got\n%s", diff)
	}
}

func TestEverySettingIsDescribedOnce(t *testing.T) {
	t.Parallel()
	for program, table := range map[string][]service.Setting{
		"webhook": service.Table[WebhookSettings](), "core": service.Table[CoreSettings](), "dispatcher": service.Table[DispatcherSettings](),
	} {
		seen := make(map[string]bool)
		for _, s := range table {
			if seen[s.Name] {
				t.Errorf("%s: %s is listed twice", program, s.Name)
			}
			seen[s.Name] = true
			if !strings.HasSuffix(s.Meaning, ".") {
				t.Errorf("%s: %s means %q, want a sentence", program, s.Name, s.Meaning)
			}
		}
		for _, name := range []string{"AMQP_URL", "QUEUE_PREFIX", "PARTITIONS", "ADMIN_ADDR", "ADMIN_PPROF", "LOG_LEVEL", "LOG_FORMAT", "SHUTDOWN_TIMEOUT"} {
			if !seen[name] {
				t.Errorf("%s: %s is not listed", program, name)
			}
		}
	}
}
