package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// evidenceRow is a folder of docs/evidence, and how it is made.
type evidenceRow struct {
	folder  string
	command string // of this program; AMQP_URL stands for the broker's address
	peers   bool   // beside systems of somebody else
}

// Parts of the rows' commands.
const (
	rivals  = " -strategies chatclub,article,static,redis,leased" // ours, the published algorithm, and the three that use the limit without refusals
	quick   = " -latency lognormal:40ms,150ms"                    // with which effects of the platform's latency disappear
	rabbit  = " -broker AMQP_URL"
	headOn  = " -runs 5"
	thrice  = " -runs 3"
	against = " -strategies chatclub" + thrice
)

// evidenceRows are all of them. What the README's headline figures are of runs five
// times. Most of what is about this project's dispatcher alone, or beside peers, runs
// three times, and so do ten-rooms and saturate-rabbitmq. The others run once: the whole
// takes less than three hours. Runs of saturate and neighbour outlast the leases of
// 15 s that one of the strategies has. Where people wait, the platform's own latency
// is the first row and 40 ms the second.
func evidenceRows() []evidenceRow {
	return []evidenceRow{
		{"saturate", "compare saturate -duration 20s" + rivals + headOn, false},
		{"ten-rooms", "compare ten-rooms -duration 20s" + rivals + thrice, false},
		{"neighbour", "compare neighbour -duration 20s" + rivals + headOn, false},
		{"scale", "compare scale -duration 24s" + rivals + headOn, false},
		{"limit-change", "compare limit-change -duration 32s" + rivals + headOn, false},
		{"lively-room", "run lively-room -duration 15s" + thrice, false},
		{"voice", "run voice -duration 32s" + thrice, false},
		{"lane-neighbour", "run lane-neighbour -duration 20s" + thrice, false},
		{"rolling-restart", "run rolling-restart -duration 32s" + thrice, false},
		{"sick-member", "run sick-member" + thrice, false},
		{"sick-page", "run sick-page" + thrice, false},
		{"saturate-40ms", "compare saturate -duration 20s" + rivals + quick, false},
		{"ten-rooms-40ms", "compare ten-rooms -duration 20s" + rivals + quick, false},
		{"neighbour-40ms", "compare neighbour -duration 20s" + rivals + quick, false},
		{"lively-room-40ms", "run lively-room -duration 15s" + quick, false},
		{"chatclub-room", "compare chatclub-room -duration 8s" + rivals, false},
		{"chatclub-room-40ms", "compare chatclub-room -duration 8s" + rivals + quick, false},
		{"bursts", "compare bursts -duration 10s -every 5s" + rivals, false},
		{"bursts-40ms", "compare bursts -duration 10s -every 5s" + rivals + quick, false},
		{"zipf", "compare zipf -duration 8s" + rivals, false},
		{"zipf-40ms", "compare zipf -duration 8s" + rivals + quick, false},
		{"saturate-16", "compare saturate -duration 20s -replicas 16" + rivals, false},
		{"shared-limit", "compare shared-limit -duration 8s" + rivals, false},
		{"azure-10000", "compare azure-10000", false},
		{"pushwoosh-sendrate", "compare pushwoosh-sendrate -strategies chatclub,article", false},
		{"mindbox-latency", "run mindbox-latency -duration 30s -warm 10s", false},
		{"aws-overload", "compare aws-overload -duration 28s -strategies chatclub,article,redis", false},
		{"ceiling", "run ceiling -pairs 9", false},
		{"saturate-rabbitmq", "compare saturate -duration 12s" + rivals + thrice + rabbit, false},
		{"scale-rabbitmq", "compare scale -duration 24s" + rivals + rabbit, false},
		{"ceiling-rabbitmq", "run ceiling -pairs 9" + rabbit, false},
		{"saturate-peers", "compare saturate -duration 15s" + against + rabbit, true},
		{"ten-rooms-peers", "compare ten-rooms -duration 15s" + against + rabbit, true},
		{"neighbour-peers", "compare neighbour -duration 20s -cold-pages 50" + against + rabbit, true},
		{"limit-change-peers", "compare limit-change -duration 32s" + against + rabbit, true},
		{"small-limits-peers", "compare small-limits -duration 15s" + against + rabbit, true},
		{"scale-peers", "compare scale -duration 24s" + against + rabbit, true},
	}
}

// args are the row's words.
func (r evidenceRow) args(broker string) []string {
	words := strings.Fields(strings.ReplaceAll(r.command, "AMQP_URL", broker))
	if r.peers {
		words = append(words, "-peers", "all")
	}
	return words
}

// needsBroker reports whether the row runs on RabbitMQ.
func (r evidenceRow) needsBroker() bool { return strings.Contains(r.command, "AMQP_URL") }

// parsed is the row's command, as the program reads it. A row that needs a broker
// has some address.
func (r evidenceRow) parsed() (*parsed, error) {
	words := r.args("amqp://guest@127.0.0.1/")
	names, flags := splitScenarios(words[1:])
	if len(names) != 1 {
		return nil, fmt.Errorf("%s: %d scenarios, want one", r.folder, len(names))
	}
	x, err := findScenario(names[0])
	if err != nil {
		return nil, err
	}
	which, ok := map[string]string{"run": "chatclub", "compare": everyStrategy}[words[0]]
	if !ok {
		return nil, fmt.Errorf("%s: %q is neither run nor compare", r.folder, words[0])
	}
	return parse(x, flags, which, io.Discard)
}

// eachStart is what a run on RabbitMQ takes besides: processes that start and
// stop, and queues that are made and deleted. Peers have servers to start, too.
const eachStart = 4 * time.Second

// takes returns about how long the row takes, if the machine disturbs none of it.
func (r evidenceRow) takes() (time.Duration, error) {
	p, err := r.parsed()
	if err != nil {
		return 0, err
	}
	all := time.Duration(p.runs) * p.set.Takes(len(p.list))
	if r.needsBroker() {
		all += time.Duration(p.runs*len(p.list)*len(p.set.Parts)) * (eachStart + p.resting())
	}
	return all, nil
}
