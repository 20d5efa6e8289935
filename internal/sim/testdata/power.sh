#!/bin/sh
# Puts each old error back, in a copy, and says after how many seeds the simulation finds it.
# sh internal/sim/testdata/power.sh [SEEDS [FIRST]], from the root of the repository.
set -eu
seeds=${1:-40}
first=${2:-1}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git clone -q . "$copy"
for patch in "$PWD"/internal/sim/testdata/*.patch; do
	git -C "$copy" apply "$patch"
	(cd "$copy" && go test -c -o sim.test ./internal/sim)
	(cd "$copy/internal/sim" && ../../sim.test -test.run '^TestSim$' -test.failfast -test.v -test.timeout 0 -seed "$first" -seeds "$seeds" || true) >"$copy/out" 2>&1
	echo "$(basename "$patch" .patch): $(grep -c '^ *--- PASS: TestSim/' "$copy/out" || true) seeds passed before: $(grep -o 'sums map[^;]*' "$copy/out" || echo 'NOT FOUND')"
	git -C "$copy" checkout -q .
done
