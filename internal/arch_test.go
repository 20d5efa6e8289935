// Package internal_test holds the map of the packages: which may import which. The
// test compares it with the import clauses of all files.
package internal_test

import "testing"

// row says what a package may import. Paths are those below the module, without
// "internal/", and are separated by spaces. "x/..." is x with all below it, and
// "..." alone is everything; a "!" before a path takes it out again. Of several
// paths that match the last one decides, of several rows the longest.
type row struct{ pkg, may string }

// house has the packages, from the ground up. A new package needs a row, and a
// row names the imports and no more, so that it can be read as a map.
func house() []row {
	return []row{
		// On the ground: these import nothing of ours.
		{"aimd", ""},
		{"audit", ""},
		{"backoff", ""},
		{"excess", ""},
		{"machine", ""},
		{"metric", ""},
		{"phrase", ""},
		{"plaintext", ""},
		{"service", "audit"},

		// The wire types, and their schemas.
		{"message", "plaintext"},
		{"docs/schema", ""},

		// The broker.
		{"queue", "message"},
		{"replicas", "message queue"},
		{"queue/memory", "queue"},
		{"queue/rabbit", "backoff metric queue"},
		{"queue/leftover", "message queue"},
		{"queue/transfer", "backoff queue"},
		{"partitions", "backoff message metric queue"},
		{"deadletter", "backoff message queue webhook"},
		{"tracing", "message metric queue"},

		// The parts of core.
		{"command", "phrase plaintext"},
		{"fanout", "message phrase plaintext"},
		{"rooms", "command plaintext"},

		// The parts of a dispatcher.
		{"circuit", "message"},
		{"sender", "message metric plaintext tracing"},

		// The three jobs.
		{"webhook", "audit message metric queue tracing"},
		{"core", "backoff command fanout message metric partitions phrase queue rooms tracing"},
		{"orders", "audit backoff message queue"},
		{"dispatch", "aimd backoff circuit excess message metric orders partitions queue queue/transfer sender tracing"},

		// Core's work beside events.
		{"broadcast", "backoff message metric plaintext queue rooms tracing"},
		{"operator", "audit broadcast message orders plaintext rooms"},

		// What operators ask of all programs.
		{"inquiry", "dispatch operator queue replicas rooms"},

		// The way in by HTTP, of core and dispatcher.
		{"submit", "audit message metric queue"},

		// The wiring, once.
		{"app", "aimd docs/schema broadcast core dispatch message metric operator orders partitions phrase queue queue/rabbit rooms sender service submit tracing webhook"},
		{"cmd/core", "app"},
		{"cmd/dispatcher", "app"},
		{"cmd/webhook", "app"},

		// The fake platform is the judge. It must know the system by
		// itself, so it imports nothing outside its own folder. The
		// platform knows neither its users nor its page.
		{"fakeapi/ledger", ""},
		{"fakeapi/limit", ""},
		{"fakeapi/wire", ""},
		{"fakeapi/webhook", "fakeapi/ledger fakeapi/wire"},
		{"fakeapi", "fakeapi/ledger fakeapi/limit fakeapi/webhook fakeapi/wire"},
		{"fakeapi/users", "fakeapi fakeapi/ledger fakeapi/webhook fakeapi/wire"},
		{"fakeapi/web/parts", ""},
		{"fakeapi/web", "fakeapi fakeapi/web/parts fakeapi/ledger fakeapi/webhook fakeapi/wire"},
		{"fakeapi/fakeapitest", "fakeapi fakeapi/webhook"},
		{"fakeapi/clienttest", ""},
		{"cmd/fakeapi", "fakeapi/... service"},
		{"cmd/chatclub", "fakeapi/... app backoff console deadletter demo message queue queue/leftover queue/memory queue/rabbit replicas rooms service"},
		{"cmd/chatclubctl", "app backoff deadletter dispatch inquiry message operator queue queue/rabbit replicas rooms service"},

		// Other ways to send, and ways to fail, for the demonstration. The load test,
		// which is a module of its own, has them too.
		{"article", "backoff excess message queue queue/transfer sender"},
		{"chaos", "backoff queue"},

		// The pages that show it all: beside a deployment, and in the demonstration, which
		// runs the article's way too.
		{"console", "fakeapi/web/parts audit backoff deadletter dispatch message queue replicas"},
		{"demo", "fakeapi fakeapi/ledger fakeapi/users fakeapi/web fakeapi/webhook app article backoff chaos console machine message queue sender"},

		// Examples for other teams. These know the protocol alone.
		{"examples/go", ""},

		// For tests, and tools.
		{"app/doctest", "service"},
		{"browsertest", ""},
		{"e2e", ""},
		{"queue/memory/memorytest", "queue queue/memory"},
		{"queue/memory/networktest", "queue queue/memory"},
		{"queue/queuetest", ""},
		{"queue/rabbit/rabbittest", "queue tools/private tools/wire"},
		{"sim", ""},
		{"rooms/roomstest", "tools/private tools/program tools/wire"},
		{"tracing/tracingtest", "queue tracing"},
		{"tools/private", "tools/program"},
		{"tools/probe", ""},
		{"tools/program", ""},
		{"tools/queries", ""},
		{"tools/stall", ""},
		{"tools/test", "queue/rabbit/rabbittest rooms/roomstest tools/private tools/program tools/stall"},
		{"tools/wire", ""},
	}
}

// houseOfTests names the imports of tests beside those of their package. They
// may use the fake and everything of the product. The load test is a module of its
// own, to which no import leads.
func houseOfTests() []row {
	return []row{
		{"...", "... !loadtest/..."},
		{"fakeapi/...", "fakeapi/..."},
	}
}

// library holds the packages that may import a library, and those whose tests may.
type library struct{ path, users, tests string }

// libraries has every module of go.mod that we import.
func libraries() []library {
	return []library{
		{"github.com/caarlos0/env/v11", "service", ""},
		{"github.com/prometheus/client_golang", "...", ""},
		{"golang.org/x/sync", "...", ""},
		{"golang.org/x/text", "plaintext console demo", ""},
		{"go.mau.fi/util", "plaintext", ""},
		{"github.com/rabbitmq/amqp091-go", "queue/rabbit/... examples/go", "e2e"},
		{"github.com/jackc/pgx/v5", "rooms/...", ""},
		{"modernc.org/sqlite", "rooms", ""},
		{"github.com/valyala/fasthttp", "fakeapi/...", ""},
		{"go.opentelemetry.io/otel", "tracing", ""},
		{"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "tracing", ""},
		{"go.opentelemetry.io/otel/sdk", "tracing", ""},
		{"go.opentelemetry.io/otel/trace", "tracing", ""},
		{"go.opentelemetry.io/proto/otlp", "tracing/tracingtest", ""},
		{"google.golang.org/protobuf", "tracing/tracingtest", ""},

		{"github.com/chromedp/cdproto", "", "browsertest"},
		{"github.com/chromedp/chromedp", "", "browsertest"},
		{"github.com/google/go-cmp", "", "..."},
		{"github.com/moby/moby/api", "queue/rabbit/rabbittest", ""},
		{"github.com/prometheus/client_model", "", "..."},
		{"github.com/santhosh-tekuri/jsonschema/v6", "", "app"},
		{"github.com/testcontainers/testcontainers-go", "queue/rabbit/rabbittest", ""},
		{"go.yaml.in/yaml/v3", "", "app"},
		{"go.uber.org/goleak", "queue/rabbit/rabbittest", "..."},
		{"pgregory.net/rapid", "", "..."},
	}
}

// instead has the packages of the standard library that nobody imports, with what
// to import in their place.
func instead() map[string]string {
	return map[string]string{
		"io/ioutil": "io and os",
		"log":       "log/slog, injected",
		"math/rand": "math/rand/v2",
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	files, err := imports("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("found %d files, want the whole module", len(files))
	}
	for _, sentence := range violations(files, house(), houseOfTests(), libraries()) {
		t.Error(sentence)
	}
}
