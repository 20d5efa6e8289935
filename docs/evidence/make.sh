#!/bin/bash
# Runs every scenario with every strategy into docs/evidence. Arguments name
# the folders to make; none: all of them. A scenario that ends otherwise than
# expected does not stop the others; it is told at the end, with exit code 1. So
# is one without a verdict, with exit code 0: its report says why.
set -u
cd "$(dirname "$0")/../.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

# The reports name the revision that was measured; evidence of an earlier run
# that lies there changes nothing in it. Go does not record it everywhere.
revision=$(git rev-parse --short=12 HEAD 2>/dev/null)
if [ -n "$revision" ] && ! git diff --quiet HEAD -- . ':!docs/evidence'; then
	revision=$revision+dirty
fi
go build -ldflags "-X chatclub/internal/loadtest/report.revision=$revision" -o "$bin/loadtest" ./cmd/loadtest || exit 1

# Name of the folder, scenario, and what is shorter or smaller than its
# defaults. Those of saturate and neighbour outlast the leases of 15 s that one
# of the strategies has.
rows='
chatclub-room        compare chatclub-room -duration 8s
saturate             compare saturate -duration 20s
saturate-16          compare saturate -duration 20s -replicas 16 -strategies chatclub,article,static,redis,leased
neighbour            compare neighbour -duration 20s
zipf                 compare zipf -duration 8s
bursts               compare bursts -duration 10s -every 5s
scale                compare scale -duration 16s
limit-change         compare limit-change -duration 24s
shared-limit         compare shared-limit -duration 8s
azure-10000          compare azure-10000
pushwoosh-sendrate   compare pushwoosh-sendrate -strategies chatclub,article,static
mindbox-latency      run mindbox-latency -duration 30s -warm 10s
aws-overload         compare aws-overload -duration 28s
ceiling              run ceiling -pairs 9
saturate-rabbitmq    compare saturate -duration 12s -broker AMQP_URL
scale-rabbitmq       compare scale -duration 16s -broker AMQP_URL -strategies chatclub,article,static,redis,leased
ceiling-rabbitmq     run ceiling -pairs 9 -broker AMQP_URL
'

bad=
open=
while read -r folder command; do
	[ -n "$folder" ] || continue
	[ $# -eq 0 ] || [[ " $* " == *" $folder "* ]] || continue
	case $command in
	*AMQP_URL*)
		if [ -z "${AMQP_URL:-}" ]; then
			echo "$folder needs a RabbitMQ: set AMQP_URL" >&2
			bad="$bad $folder"
			continue
		fi
		command=${command/AMQP_URL/$AMQP_URL}
		;;
	esac
	echo "== $folder" >&2
	# shellcheck disable=SC2086 # words are arguments
	"$bin/loadtest" $command -out "docs/evidence/$folder" </dev/null >"$bin/table"
	case $? in
	0) ;;
	3) open="$open $folder" ;;
	*) bad="$bad $folder" ;;
	esac
	cat "$bin/table" >&2
done <<<"$rows"
if [ -n "$open" ]; then
	echo "no verdict:$open" >&2
fi
if [ -n "$bad" ]; then
	echo "not as expected:$bad" >&2
	exit 1
fi
