# `make` lists what there is. Everything runs from a fresh clone: Go fetches the modules, nothing else is needed for
# demo, build and test. Tools are pinned in internal/tools/go.mod and built into bin/.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

LISTEN    ?= 127.0.0.1:8080
DEMO_DATA ?= .cache/demo
FUZZTIME  ?= 30s
KILLS     ?= 50
BENCH     ?= .
COUNT     ?= 3

# Packages that start the built program; they are run by `make e2e`.
E2E := ./test/e2e/... ./test/script/...

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/davit
	go build -ldflags '-s -w' -o bin/davit ./cmd/davit

.PHONY: demo
demo: build ## run everything on this machine with the demo (LISTEN=…, DEMO_DATA=…)
	@mkdir -p '$(DEMO_DATA)'
	bin/davit up --demo --listen '$(LISTEN)' --data-dir '$(DEMO_DATA)'

.PHONY: test
test: ## run the tests; needs Go and git only
	go test -shuffle=on $$(go list ./... | grep -vE '/test/(e2e|script)(/|$$)')

# A test binary with the Temporal server and the race detector in it takes minutes and gigabytes to build, and the
# server is not ours; what links it is tested without the detector.
.PHONY: race
race: ## run the tests with the race detector, of packages that do not link the Temporal server
	go test -race -shuffle=on $$(.ci/packages --without go.temporal.io/server/temporal | grep -vE '/test/(e2e|script|bench)(/|$$)')

.PHONY: lint
lint: bin/golangci-lint ## check style, imports and mistakes
	bin/golangci-lint run ./...

.PHONY: workflowcheck
workflowcheck: bin/workflowcheck ## prove that replayed code is deterministic, as far as a tool can
	bin/workflowcheck ./workflows/...

.PHONY: replay
replay: | .cache ## replay the recorded histories of every version
	go test -count=1 -v -run '^TestReplay' ./workflows > .cache/replay.txt || { tail -n 40 .cache/replay.txt; exit 1; }
	@grep -q '^--- PASS: TestReplay' .cache/replay.txt || { echo 'make replay: no replay test in workflows' >&2; exit 1; }
	@tail -n 1 .cache/replay.txt

.cache:
	@mkdir -p $@

.PHONY: vuln
vuln: bin/govulncheck ## look for known vulnerabilities, where the database can be reached
	.ci/vuln

.PHONY: fuzz
fuzz: ## fuzz everything that reads what others wrote, FUZZTIME each
	.ci/fuzz '$(FUZZTIME)'

.PHONY: bench
bench: build ## measure (BENCH=regexp, COUNT=runs)
	DAVIT_BENCH_BINARY='$(CURDIR)/bin/davit' go test -run '^$$' -bench '$(BENCH)' -count '$(COUNT)' -timeout 60m ./test/bench/...

.PHONY: e2e
e2e: build ## test the built program end to end
	DAVIT_BIN='$(CURDIR)/bin/davit' go test -count=1 -timeout 25m $(E2E)

.PHONY: e2e-long
e2e-long: build ## the same, killing the server KILLS times
	DAVIT_BIN='$(CURDIR)/bin/davit' DAVIT_E2E_KILLS='$(KILLS)' go test -count=1 -timeout 120m -v $(E2E)

.PHONY: generate
generate: ## write the generated files: schema comments, reference pages
	go generate ./...

.PHONY: ci
ci: ## all that must pass before a change goes in, each part timed and limited
	.ci/parts

# One stamp a tool: built again when its version changes.
bin/golangci-lint bin/workflowcheck bin/govulncheck: internal/tools/go.mod internal/tools/go.sum
	@mkdir -p bin
	cd internal/tools && go build -o ../../$@ $$(awk '/\/'$(@F)'$$/ {print $$1; exit}' go.mod)
	@touch $@

.PHONY: tools
tools: bin/golangci-lint bin/workflowcheck bin/govulncheck ## build the pinned tools

.PHONY: clean
clean: ## remove what was built, and the demo's data
	rm -rf bin .cache
