# Needs make, bash and go. `make` alone lists the targets.
.POSIX:

BIN = bin
PKG = ./... ./loadtest/...
TESTFLAGS =
TIMEOUT = 10m
LONG_TIMEOUT = 50m
FUZZTIME = 30s
BENCH = .
COUNT = 6
FOR = 10m
PAIRS = 9
FAULTS =
EVIDENCE =
ARGS = list

# The linters; the first run builds them, which takes minutes.
golangci = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Checks the alerts. The first run builds it, which takes minutes; without its
# service discovery that is half of it.
promtool = go run -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool@v0.316.0

# Makes a release's archives.
goreleaser = go run github.com/goreleaser/goreleaser/v2@v2.12.7

# What a build without Git's folder is told of it.
version = --build-arg VERSION="$$(git describe --tags --always --dirty)" --build-arg REVISION="$$(git rev-parse HEAD)"

# Finds or starts one RabbitMQ and one PostgreSQL, and finds Chromium.
tests = go run ./tools/test
withservers = $(tests) exec

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

build: ## build every program, static, into bin/
	mkdir -p $(BIN)
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/... ./loadtest/cmd/...

test: ## run every test, the long ones in a short form, without the race detector; finds or starts its servers (PKG, TESTFLAGS, TIMEOUT)
	$(tests) -timeout $(TIMEOUT) $(TESTFLAGS) $(PKG)

test-long: ## run every test in full: all tables, all property runs, the race detector on but for simulations (PKG, TESTFLAGS, LONG_TIMEOUT)
	$(tests) -long -timeout $(LONG_TIMEOUT) $(TESTFLAGS) $(PKG)

peers: ## test the settings of BullMQ, the peer of the load test that is no Go program
	if command -v node >/dev/null; then cd loadtest/peers/bullmq && node --test; else echo "no Node.js: the test of BullMQ's settings is left out" >&2; fi

vet: ## go vet
	go vet $(PKG)

lint: ## golangci-lint, formatting included
	$(golangci) run --allow-parallel-runners ./... ./loadtest/...

promtool: ## build promtool, which takes minutes the first time
	$(promtool) --version

alerts: ## check deploy/alerts.yml and the dashboard's queries, and run each alert's situations
	mkdir -p $(BIN)
	go run ./tools/queries < deploy/grafana/dashboards/chatclub.json > $(BIN)/queries.yml
	$(promtool) check rules $(BIN)/queries.yml
	$(promtool) check rules deploy/alerts.yml
	$(promtool) test rules deploy/alerts_test.yml

image: ## build production's container image, chatclub
	docker build -t chatclub $(version) .

demo-image: ## build the image with fakeapi, the load tests and the whole system, chatclub-demo
	docker build -t chatclub-demo --target demo $(version) .

compose-test: ## run compose with four dispatchers, kill one, restart RabbitMQ, read the ledger; a few minutes (KEEP=1: leave it running)
	bash deploy/compose-test/run

release-check: ## check .goreleaser.yaml; the first run builds goreleaser, which takes minutes
	$(goreleaser) check

fmt: ## format the code
	$(golangci) fmt
	cd loadtest && $(golangci) fmt

tidy: ## check that go.mod and go.sum are tidy
	go mod tidy -diff
	cd tools/manifests && go mod tidy -diff
	cd loadtest && go mod tidy -diff

schemas: ## download the schemas of Kubernetes and its operators
	cd tools/manifests && GOWORK=off go run . -download

manifests: ## build the overlays of deploy/kubernetes, and validate every object strictly, without a cluster
	cd tools/manifests && export GOWORK=off && go test ./... && go run . ../../deploy/kubernetes/overlays/*

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

loadtest: ## the load tests (ARGS: a command, such as "run saturate -out out/saturate"; without one: the list of them)
	@cd loadtest && go run -ldflags "-X chatclub/internal/service.linkedRevision=$$(git describe --always --dirty=+dirty --abbrev=12 --exclude='*' 2>/dev/null)" ./cmd/loadtest $(ARGS)

evidence: ## play the tables of docs/evidence.md on RabbitMQ, into loadtest/out/evidence: some 100 minutes (EVIDENCE: its flags, such as -runs 5)
	$(withservers) sh -c '$(MAKE) loadtest ARGS="evidence -out out/evidence -broker $$AMQP_URL $(EVIDENCE)"'

flow-rabbit: ## a page saturated for a minute on RabbitMQ, then again with dispatchers that join, leave and are killed
	$(withservers) sh -c 'for c in saturate scale; do $(MAKE) loadtest ARGS="run $$c -duration 60s -broker $$AMQP_URL" || exit; done'

flow: ## print what the dispatchers do with a page's quota, in virtual time: minutes of processor time
	go test -count=1 -v -run '^TestFlow$$' ./loadtest/flow -seeds 3

sim: ## play the whole system in virtual time, while it fails, from new seeds (FOR, such as 1h)
	go test -count=1 -v -timeout 0 -run '^TestSim$$' ./internal/sim -for $(FOR)

faults: ## make a whole deployment fail, one fault after another, into loadtest/out/faults: 30 minutes (FAULTS: its flags, such as -for 6h -seed 2)
	@$(MAKE) loadtest ARGS='faults -out out/faults $(FAULTS)'

docs: ## write the tables of settings and metrics
	UPDATE_DOCS=1 go test -count=1 -run 'Doc$$' ./internal/app ./cmd/chatclub ./cmd/chatclubctl ./cmd/fakeapi

run: ## the whole system in one process, until Ctrl-C
	go run ./cmd/chatclub

screenshots: ## take docs/chatclub.png again, in headless Chromium, two minutes of a quiet machine (BUSY_PICTURES=1: of any)
	UPDATE_SCREENSHOTS=1 go test -count=1 -run '^TestPictures$$' ./internal/browsertest

quickstart: ## run it for 20 s and check that nothing was lost or doubled
	bash .ci/quickstart

check: ## what CI runs, but for compose-test and each version of the servers: half an hour; as root on Debian it installs what is missing
	bash .ci/run

clean: ## remove what was built
	rm -rf $(BIN) coverage.out

.PHONY: help build test test-long peers vet lint promtool alerts schemas manifests fmt tidy fuzz bench bench-core loadtest flow-rabbit flow sim faults docs screenshots run quickstart check clean image demo-image compose-test release-check
