# reaperd: build, test, check. Go, git and make are enough to start: `test` and
# `check` install the rest from Debian's packages where it is missing.

SHELL         := /bin/bash
.SHELLFLAGS   := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-builtin-rules

# A plain user's PATH lacks the places where dockerd and its helpers live.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
# 1: what a test cannot run, it must not skip. CI sets it.
export REAPERD_MUST_RUN

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
REVISION   ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS    := -s -w -X main.version=$(VERSION)

DEMO_FLAGS ?=
TEST_FLAGS ?=
PKG        ?= ./...
GO_IMAGE   ?= golang:1.26
IMAGE      ?= reaperd:$(VERSION)
IMAGE_FLAGS ?=

# Tests run as root (engines, foreign processes). For anybody else only the test
# binaries do, through sudo, so that Go's caches keep their owner.
ifneq ($(shell id -u),0)
ifneq ($(shell command -v sudo),)
AS_ROOT  := -exec $(CURDIR)/.ci/as-root
# Asked for a password here, sudo does not ask in the middle of the tests.
ask_once = @sudo true
endif
endif

step = @printf '\n==> %s\n' '$(1)'

.PHONY: help
help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build the static binary, bin/reaperd
	$(call step,build bin/reaperd $(VERSION))
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/reaperd ./cmd/reaperd

.PHONY: demo
demo: build ## Watch stray sandboxes being found and reclaimed (DEMO_FLAGS=--exit to end by itself)
	$(call step,demo)
	bin/reaperd demo $(DEMO_FLAGS)

.PHONY: setup
setup:
	$(call step,set up)
	@.ci/setup

.PHONY: test
test: setup ## Run every test, with the race detector and real engines (PKG=./pkg/scan/... for a part)
	$(call step,test)
	$(ask_once)
	$(GO) test -race -shuffle=on -timeout 20m -p 2 $(AS_ROOT) $(TEST_FLAGS) $(PKG)

.PHONY: check
check: setup check-format check-vet check-lint check-tidy check-cross check-units ## Lint, vet, tidy and cross-build everything, verify the systemd unit

.PHONY: check-format
check-format:
	$(call step,gofmt)
	@bad="$$(git ls-files --cached --others --exclude-standard '*.go' | while read -r f; do [ ! -e "$$f" ] || gofmt -s -l "$$f"; done)"; \
	[ -z "$$bad" ] || { echo "not formatted, run gofmt -s -w on:"; echo "$$bad"; exit 1; }

.PHONY: check-vet
check-vet:
	$(call step,go vet)
	$(GO) vet ./...

# The first run builds the linter from source, a few minutes; Go caches it.
.PHONY: check-lint
check-lint:
	$(call step,golangci-lint)
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

.PHONY: check-tidy
check-tidy:
	$(call step,go mod tidy)
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff

.PHONY: check-cross
check-cross:
	$(call step,cross builds)
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...

.PHONY: check-units
check-units:
	$(call step,systemd units)
	@.ci/verify-units

# One process a core, since virtual time runs on one, and none that is put aside in
# the middle, so that a seed tells the same story again. The stories are told
# without the race detector, which has its turn in make test.
SEEDS ?= 1000
CORES ?= $(shell nproc)

.PHONY: simulate
simulate: ## Tell stories of a fleet and hold the loop to them, then break its rules (SEEDS=1000)
	$(call step,simulate $(SEEDS) stories)
	@dir="$$(mktemp -d)"; trap 'rm -rf "$$dir"' EXIT; \
	$(GO) test -c -o "$$dir/simulation" ./pkg/scan/simulation; \
	each=$$(( ($(SEEDS) + $(CORES) - 1) / $(CORES) )); tellers=(); \
	for n in $$(seq 0 $$(($(CORES) - 1))); do \
		(cd pkg/scan/simulation && GOMAXPROCS=1 GOGC=400 GODEBUG=asyncpreemptoff=1 "$$dir/simulation" -test.run '^TestStories$$' -test.timeout 30m \
			-sim.from=$$((n * each + 1)) -sim.seeds=$$each -sim.sum) & tellers+=($$!); \
	done; \
	for teller in "$${tellers[@]}"; do wait "$$teller"; done
	$(call step,break the rules of safety)
	$(GO) test -count=1 -timeout 20m -parallel $(CORES) -run '^TestMutants$$' ./pkg/scan/simulation -sim.mutants

.PHONY: bench
bench: ## Run the benchmarks
	$(call step,bench)
	$(ask_once)
	@packages="$$({ git grep -l --untracked '^func Benchmark' -- '*_test.go' || true; } | xargs -r -n1 dirname | sort -u | sed 's|^|./|')"; \
	[ -n "$$packages" ] || { echo "no package has benchmarks"; exit 0; }; \
	$(GO) test -run '^$$' -bench . -benchmem -p 1 $(AS_ROOT) $(TEST_FLAGS) $$packages

.PHONY: image
image: ## Build the container image (GO_IMAGE=... takes the toolchain from elsewhere)
	$(call step,image $(IMAGE))
	docker build $(IMAGE_FLAGS) --build-arg GO_IMAGE=$(GO_IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$(REVISION) -t $(IMAGE) .

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist
