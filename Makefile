# Everything a developer does here. `make help` lists it.

GO       ?= go
BIN      := bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
PACKAGES := ./...

# A CPU profile of the invoker, with which the compiler makes the program a tenth faster.
# The build then takes half as long again; PGO=off builds without the profile.
PROFILE := invoker/cmd/gpuwhisk/invoker.pgo
PGO     ?= $(CURDIR)/$(PROFILE)

# NVML's header marks some functions as deprecated, and go-nvml calls all of them.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# Tools are Go modules at pinned versions, built on first use.
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GENGRPC     := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.DEFAULT_GOAL := help

.PHONY: help
help: ## List what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/gpuwhisk and the native action proxy
	CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -pgo='$(PGO)' -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./invoker/cmd/gpuwhisk ./docker/runtimes/native/cmd/gpuwhisk-native

.PHONY: build-gpu
build-gpu: ## Build bin/gpuwhisk with NVML, for hosts with a GPU (needs a C compiler)
	CGO_ENABLED=1 $(GO) build -pgo='$(PGO)' -trimpath -ldflags '$(LDFLAGS) -extldflags=-Wl,-z,lazy' -o $(BIN)/ ./invoker/cmd/gpuwhisk

.PHONY: demo
demo: ## Show fcfs and fair queueing side by side on a simulated GPU, about a minute
	@echo "Building bin/gpuwhisk (Go), and the shim with its fake driver (C)."
	@echo "The first time takes some minutes on a small machine, later seconds."
	@{ $(MAKE) -s --no-print-directory GO='$(GO)' BUILDFLAGS=-v PGO=off build 2>&1 || echo "build: failed"; } | { n=0; \
		while read -r line; do case $$line in \
		"build: failed") exit 1 ;; \
		*[:\ ]*|[!a-z0-9]*) echo "$$line" ;; \
		*) n=$$((n + 1)); [ $$((n % 25)) -ne 0 ] || echo "  $$n packages compiled" ;; \
		esac; done; }
	@$(MAKE) --no-print-directory shim-if-possible
	@echo
	@$(BIN)/gpuwhisk demo

.PHONY: test
test: ## Run all tests with the race detector; real peers are installed and started where that is possible
	.ci/test $(PACKAGES)

.PHONY: unit
unit: ## Run the tests that need nothing but Go
	$(GO) test -race $(PACKAGES)

.PHONY: shim
shim: ## Build the CUDA interposition shim, build/shim/libgpuwhisk.so, for glibc 2.17 where zig cc is there
	$(MAKE) -C shim
	$(MAKE) -s -C shim fit

.PHONY: shim-test
shim-test: ## Test the shim on its fake driver, also under sanitizers (about 2 minutes)
	$(MAKE) -C shim test

.PHONY: shim-fake
shim-fake: ## Build the shim, its fake driver, and the programs that tests run under them
	$(MAKE) -C shim fake

# Targets that can do without the shim do not fail if there is no C compiler.
.PHONY: shim-if-possible
shim-if-possible:
	@if command -v $(CC) >/dev/null; then $(MAKE) -s -C shim fake; \
	else echo "no C compiler: GPU functions run without the shim; on Debian: apt-get install gcc libc6-dev"; fi

.PHONY: gpu-check
gpu-check: ## Try and measure the GPU of this machine, results in docs/results; CHECK has options
	@if command -v $(GO) >/dev/null; then $(MAKE) gpu-check-parts; \
	else echo "no Go here: the check runs as it was built elsewhere"; fi
	$(BIN)/gpuwhisk gpu-check --reclaim --out docs/results $(CHECK)

.PHONY: gpu-check-parts
gpu-check-parts: shim build-gpu
	$(MAKE) -s -C shim/check

.PHONY: images
images: build ## Build the action images for Docker, without a network
	docker/runtimes/build.sh

.PHONY: images-gpu
images-gpu: ## Build the image of python:3-gpu with CuPy and the CUDA libraries (pip fetches 1.1 GB)
	docker/runtimes/build.sh python3-gpu

.PHONY: image
image: ## Build the image gpuwhisk/invoker for Docker, without pulling one
	docker/invoker/build.sh

.PHONY: packages
packages: ## Build deb and rpm packages for amd64 and arm64 into dist (ARCHS=amd64 for one)
	invoker/package/packages.sh $(ARCHS)

.PHONY: release
release: ## Build packages, tarballs, collection, bill of materials and checksums into dist
	RELEASE=1 invoker/package/packages.sh $(ARCHS)

.PHONY: sign
sign: ## Sign the files of `make release` with cosign: COSIGN_KEY, or keyless (invoker/package/sign.sh says how)
	invoker/package/sign.sh files dist

.PHONY: packages-test
packages-test: ## Test a deb and an rpm on a host with systemd: install, upgrade with running work, removal (needs Docker, debootstrap)
	RUN=TestPackage .ci/ansible

.PHONY: swap-test
swap-test: ## Test image, packages and collection: three invokers swapped under load and back (ten minutes, needs Docker)
	.ci/ansible

.PHONY: chaos
chaos: ## End invokers at random moments while Kafka, the database, disk or clock fail, and count what is lost or ran twice (CHAOS_ROUNDS=50, CHAOS_SEED)
	.ci/chaos

.PHONY: bench
bench: ## Measure speed and memory, compare with the last kept run (BENCH_PEERS=1: also among real parts)
	.ci/bench

.PHONY: profile
profile: ## Make the profile of the invoker anew, for the compiler's profile-guided optimization
	rm -rf build/profile && mkdir -p build/profile
	GPUWHISK_BENCH_PROFILE=$(CURDIR)/build/profile $(GO) test -trimpath -run '^$$' -bench Hallway/embedded -benchtime 10x -timeout 30m ./invoker/internal/develop/bench
	$(GO) tool pprof -proto build/profile/*.cpu > $(PROFILE)

.PHONY: proto
proto: ## Compile the protocol of schedulers anew (needs protoc; Debian: apt-get install protobuf-compiler libprotobuf-dev)
	GOBIN=$(CURDIR)/build/proto $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	GOBIN=$(CURDIR)/build/proto $(GO) install $(GENGRPC)
	PATH=$(CURDIR)/build/proto:$$PATH protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative activation/fetch/activationpb/activation.proto

.PHONY: claims
claims: build ## Measure the paper's claims again and redraw docs/scheduling-results.md and docs/figures (minutes)
	$(BIN)/gpuwhisk sim claims --seeds 20 --into docs/scheduling-results.md --csv docs/results/scheduling-claims.csv
	$(BIN)/gpuwhisk sim grid --seeds 20 --into docs/scheduling-results.md --csv docs/results/scheduling-grid.csv
	$(MAKE) figures

# The pictures need matplotlib, in a virtual environment of its own.
PLOT := build/plot/bin/python

.PHONY: figures
figures: build $(PLOT) ## Draw the pictures of docs/scheduling-results.md (installs matplotlib into build/plot; minutes)
	$(PLOT) docs/figures/draw.py

$(PLOT): docs/figures/requirements.txt
	python3 -m venv build/plot || { echo "make figures needs Python's venv; on Debian: apt-get install python3-venv"; exit 1; }
	build/plot/bin/pip install -q -r $< || { echo "make figures needs matplotlib: see $<"; exit 1; }
	touch $@

.PHONY: long
long: build ## Random histories of a million events each, bounds over a million seconds, a million hostile messages, a backlog of 100,000, the invoker's image with GPU functions, restarts, the oldest and the newest Kafka, and a soak of SOAK=1h (hours)
	GPUWHISK_LONG=1 $(GO) test -timeout 60m -run 'Histories|MillionSeconds' ./sched
	$(GO) test -timeout 60m -run SchedulerUnderFaults ./gpu/scheduler -args -events 1000000
	GPUWHISK_WORLDS=3000 $(GO) test -timeout 120m -run RandomWorlds ./gpu/scheduler
	GPUWHISK_LONG=1 GPUWHISK_WORLDS=100 $(GO) test -timeout 120m -run 'RandomWorlds|Limit.*Shared|LimitWith|LimitBeside|Containers?.*Tokens|Wait|Flood|Drift|NoTokenIsWasted|Growing' ./gpu/scheduler
	GPUWHISK_LONG=1 $(GO) test -timeout 30m -run HostileMessages ./activation/kafka
	GPUWHISK_LONG=1 $(GO) test -timeout 30m -run 'TakesMoreThanItReports|InvokerInAContainer' ./invoker/internal/develop/e2e
	GPUWHISK_LONG=1 $(GO) test -timeout 30m -run MemoryTour ./invoker/internal/develop/demo
	GPUWHISK_LONG=1 $(GO) test -count=1 -timeout 30m -v -run ApacheKafkasRetention ./invoker/internal/develop/replay
	GPUWHISK_BACKLOG=100000 $(GO) test -count=1 -timeout 120m -v -run 'Kills/while_many_wait_for_a_GPU' ./invoker/internal/develop/replay
	GPUWHISK_RESTARTS=20 GPUWHISK_PROGRAM=$(CURDIR)/$(BIN)/gpuwhisk $(GO) test -count=1 -timeout 30m -v -run RestartGap ./invoker/internal/develop/replay
	for v in 2.3.1 4.4.0; do \
		GPUWHISK_KAFKA_VERSION=$$v .ci/test ./activation/kafka ./invoker/develop/standalone/broker ./invoker/internal/assembly ./invoker/internal/develop/e2e || exit 1; done
	GPUWHISK_SOAK=$(or $(SOAK),1h) $(GO) test -count=1 -timeout 24h -v -run 'TestSoak$$' ./invoker/internal/develop/replay | grep -v 'level='

.PHONY: fuzz
fuzz: ## Fuzz every decoder for a while (FUZZTIME=30s each)
	.ci/fuzz $(or $(FUZZTIME),30s)

.PHONY: lint
lint: ## gofmt, vet, staticcheck, golangci-lint
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags ansible ./ansible/...
	$(GO) run $(STATICCHECK) $(PACKAGES)
	$(GO) run $(GOLANGCI) run $(PACKAGES)

.PHONY: vuln
vuln: ## Look for known vulnerabilities in the called code; fails if there is one (needs the vulnerability database)
	.ci/vuln strict

.PHONY: clean
clean: ## Remove built files
	rm -rf $(BIN) build
