# Needs make, bash and go. `make` alone lists the targets.
.POSIX:

BIN = bin
PKG = ./...
TESTFLAGS =
TIMEOUT = 10m
LONG_TIMEOUT = 50m
FUZZTIME = 30s
BENCH = .
COUNT = 6
PAIRS = 9
SENDS = 40000
EVIDENCE =
COST =

# The linters have a module of their own; the first run builds them, which
# takes minutes.
golangci = go tool -modfile=tools/go.mod golangci-lint

# Checks the alerts. The first run builds it, which takes minutes; without its
# service discovery that is half of it.
promtool = go run -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool@v0.316.0

# Finds or starts one RabbitMQ and one PostgreSQL for the command that follows,
# and finds Chromium, without which the tests of the pages fail.
withservers = go run ./internal/tools/withservers

# A program under the race detector sleeps for a second before it exits, in case
# a goroutine that it left behind races. Our tests wait for theirs.
gorace = GORACE="$${GORACE:-atexit_sleep_ms=20}"

# The race detector needs cgo, and cgo a C compiler.
race = $$(if [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null; then \
	echo -race; \
	else echo "no C compiler: tests run without the race detector" >&2; fi)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

build: ## build every program, static, into bin/
	mkdir -p $(BIN)
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/...

test: ## run every test, the long ones in a short form; finds or starts its servers (PKG, TESTFLAGS, TIMEOUT)
	$(gorace) $(withservers) go test -short $(race) -timeout $(TIMEOUT) $(TESTFLAGS) $(PKG)

test-long: ## run every test in full: all tables, all property runs (PKG, TESTFLAGS, LONG_TIMEOUT)
	$(gorace) $(withservers) go test $(race) -timeout $(LONG_TIMEOUT) $(TESTFLAGS) $(PKG)

vet: ## go vet
	go vet $(PKG)

lint: ## golangci-lint, formatting included
	$(golangci) run --allow-parallel-runners $(PKG)

promtool: ## build promtool, which takes minutes the first time
	$(promtool) --version

alerts: ## check deploy/alerts.yml, and run each alert's situations
	$(promtool) check rules deploy/alerts.yml
	$(promtool) test rules deploy/alerts_test.yml

fmt: ## format the code
	$(golangci) fmt

tidy: ## check that go.mod and go.sum are tidy
	go mod tidy -diff
	cd tools && go mod tidy -diff

fuzz: ## run each fuzz target for FUZZTIME
	@find . -name '*_test.go' -exec grep -H '^func Fuzz' {} + | \
	sed -n 's,^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*,\1 \2,p' | sort -u | \
	while read -r dir target; do \
		echo "$$dir $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
	done

bench: ## run the benchmarks (PKG, BENCH, COUNT)
	$(withservers) go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-core: ## CPU of a copy in core against a bare publishing loop (PAIRS)
	$(withservers) go test -run '^$$' -bench '^BenchmarkFanOut$$' -benchtime $(PAIRS)x ./internal/core

flow-rabbit: ## a page saturated for a minute on RabbitMQ, then again with dispatchers that join, leave and are killed
	$(withservers) sh -c 'exec go run ./cmd/loadtest run saturate scale -duration 60s -broker "$$AMQP_URL"'

judge: ## CPU of an accepted send against a bare HTTP handler (PAIRS, SENDS)
	go run ./fakeapi/cost -pairs $(PAIRS) -sends $(SENDS)

bench-dispatch: ## CPU of the dispatcher per message against a bare loop (COST: its flags)
	$(withservers) sh -c 'exec go run ./cmd/loadtest run ceiling -broker "$$AMQP_URL" -most 1.4 -pairs $(PAIRS) $(COST)'

docs: ## write the tables of settings, metrics and packages anew
	UPDATE_DOCS=1 go test -count=1 -run 'Doc$$' ./internal/app ./cmd/chatclub ./cmd/chatclubctl ./cmd/fakeapi

pictures: ## draw the pictures in docs/ that code can draw
	go run ./fakeapi/limit/picture > docs/limits.svg.new
	mv docs/limits.svg.new docs/limits.svg

evidence: ## docs/evidence: every scenario with every strategy, about 40 minutes of a quiet machine (EVIDENCE)
	$(withservers) bash docs/evidence/make.sh $(EVIDENCE)

run: ## the whole system in one process, until Ctrl-C
	go run ./cmd/chatclub

screenshots: ## take the pictures of pages in docs/ anew, in headless Chromium, about 5 minutes of a quiet machine (BUSY_PICTURES=1: of any)
	UPDATE_SCREENSHOTS=1 go test -count=1 -run '^TestPictures$$' ./internal/browsertest
	UPDATE_SCREENSHOTS=1 go test -count=1 -run '^TestScreenshots$$' ./internal/loadtest/report

film: ## docs/tour.gif: the tour of chatclub's page, in headless Chromium, a minute of a quiet machine (BUSY_PICTURES=1: of any)
	UPDATE_FILM=1 go test -count=1 -v -run '^TestTour$$' ./internal/browsertest

quickstart: ## run it for 20 s and check that nothing was lost or doubled
	bash .ci/quickstart

check: tidy build vet lint alerts quickstart test test-long ## all that CI runs, which takes minutes

clean: ## remove what was built
	rm -rf $(BIN) coverage.out

.PHONY: help build test test-long vet lint promtool alerts fmt tidy fuzz bench bench-core judge bench-dispatch flow-rabbit docs pictures screenshots film evidence run quickstart check clean
