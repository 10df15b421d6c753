# Everything is built into bin/; nothing outside this folder is written, but for
# the packages that `deps` installs. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

# sudo's PATH is not the caller's, and Go's installer puts Go where no PATH looks by default.
ifeq ($(shell command -v go),)
ifeq ($(wildcard /usr/local/go/bin/go),)
$(error no Go in PATH, nor in /usr/local/go: install it from https://go.dev/dl, or with sudo use: sudo env "PATH=$$PATH" make …)
endif
$(info go: /usr/local/go/bin/go, as PATH has none)
export PATH := /usr/local/go/bin:$(PATH)
endif

# The release of the file VERSION; before its tag is set 0.1.0-dev.N, N commits from the first one.
VERSION  := $(shell packaging/version.sh)
COMMIT   := $(shell git describe --always --abbrev=40 --exclude='*' --dirty=+ 2>/dev/null)
# The entry point of lineage, -E, is cmd/lineage/urgent's.
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
PROGRAMS := $(patsubst testdata/programs/%.c,bin/testdata/lngtest-%,$(wildcard testdata/programs/*.c))
CFLAGS   := -O2 -Wall -Wextra -Werror

# Tests and the demo run in a mount namespace with a bpffs of their own.
PRIVATE := testdata/bpffs.sh
GOTEST  := testdata/gotest.sh

# The packages of both modules, ./... has none of module api; that with the longest tests first.
EVERY := ./tracer github.com/lineage-ebpf/lineage/...

# lint has go vet.
ALONE := -vet off -exec $(CURDIR)/testdata/alone.sh

# What the tests need of the system, and what only the C side needs.
TEST_PACKAGES := at gcc jq libc6-dev logrotate mandoc nodejs openssh-client procps python3 tmux
LINT_PACKAGES := clang-format-19 shellcheck
C_PACKAGES    := clang-19 llvm-19 libbpf-dev
AGENT_PACKAGES := nodejs npm tmux
FRESH_PACKAGES := mmdebstrap
DOCKER_PACKAGES := docker.io iptables busybox-static
BROKER_PACKAGES := tmux at cron crun $(DOCKER_PACKAGES)
MODEL_PACKAGES := spin gcc libc6-dev
PACKAGE_PACKAGES := lintian rpm cpio mmdebstrap
PICTURE_PACKAGES := chromium fonts-dejavu-core poppler-utils
SITE_PACKAGES := furo python3-myst-parser python3-sphinx
VM_PACKAGES   := binutils cpio lz4 qemu-system-x86 runc seabios zstd
ARM_PACKAGES  := gcc-aarch64-linux-gnu libc6-dev-arm64-cross

# Where install.sh and uninstall.sh put things.
export PREFIX DESTDIR FORCE PURGE

# The kernels of the matrix: Debian's newest of each series, and the oldest that it serves.
KERNELS  := 5.10 6.1 6.12 6.16 6.18 6.18-rt 6.19 7.1 7 \
	5.10-oldest 6.1-oldest 6.12-oldest 6.16-oldest 6.18-oldest 6.19-oldest 7.1-oldest
ARM_KERNELS := 6.18
VM_TESTS := tracer enforcer daemon daemon/cgroup daemon/holdings daemon/status internal/e2e internal/e2e/escapes internal/e2e/brokers

GOLANGCI := golangci-lint-v2.15.0
ACTIONLINT := actionlint-v1.7.12
export NFPM := nfpm-v2.43.0

# What a release is built for, and when: at the time of the commit.
ARCHS := amd64 arm64
HERE  := $(shell PATH='$(PATH)' go env GOARCH)
EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date +%s))

.PHONY: deb rpm bin/NOTICES $(ARCHS:%=bin/%/lineage) $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile)

## help: list the targets
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | awk '{ t = $$1; sub(/:$$/, "", t); $$1 = ""; printf "  %-16s%s\n", t, $$0 }'

# Programs that lineage starts, with dependencies that the daemon's must not have.
HELPERS := lineage-mcp lineage-export lineage-link

## build: bin/lineage, and bin/lineage-mcp, bin/lineage-export and bin/lineage-link, which it starts; static
build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS) -E lineage_start' -o bin/lineage ./cmd/lineage
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ $(HELPERS:%=./cmd/%)

## all: what is installed: the binary, the manual pages, the shells' completions
all: build man completion bin/NOTICES

## man: the manual pages, into bin/man/
man:
	rm -rf bin/man
	SOURCE_DATE_EPOCH=$(EPOCH) \
		go run -tags man -ldflags '-X main.version=$(VERSION)' ./cmd/lineage bin/man
	cp packaging/man/* bin/man/

## completion: the shells' completions, into bin/completion/
completion: build
	@mkdir -p bin/completion
	for shell in bash zsh fish; do bin/lineage completion $$shell > bin/completion/lineage.$$shell; done

bin/NOTICES: build
	go run ./internal/release notices bin/lineage $(HELPERS:%=bin/%) > $@

## install: install what "make all" made; PREFIX (/usr/local), DESTDIR; a policy is never touched (root)
install:
	@packaging/install.sh

# The programs of each architecture, for the packages.
$(ARCHS:%=bin/%/lineage): bin/%/lineage: build
	CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -ldflags '$(LDFLAGS) -E lineage_start' -o $@ ./cmd/lineage
	CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(@D)/ $(HELPERS:%=./cmd/%)

## deb: packages for Debian and Ubuntu, of amd64 and arm64, into bin/dist/
## rpm: the same for Fedora, RHEL and SUSE
deb rpm: all $(ARCHS:%=bin/%/lineage) .cache/bin/$(NFPM)
	@mkdir -p bin/dist
	for arch in $(ARCHS); do VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(EPOCH) packaging/package.sh $@ $$arch bin/dist; done

## dist: all that a release has, into bin/dist: tarballs, packages, images, bills of materials, checksums
dist:
	rm -rf bin/dist
	$(MAKE) deb rpm image
	for arch in $(ARCHS); do VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(EPOCH) packaging/tarball.sh $$arch bin/dist; done
	for arch in $(ARCHS); do for p in lineage $(HELPERS); do go run ./internal/release sbom $(VERSION) $(EPOCH) bin/$$arch/$$p > bin/dist/$$p-$(VERSION)-linux-$$arch.cdx.json; done; done
	cd bin/dist && rm -f SHA256SUMS && LC_ALL=C sha256sum * > SHA256SUMS

## release: dist of a commit that has the tag of VERSION, and bin/release-notes.md; publishes nothing; RELEASE_KEY=file signs SHA256SUMS
release:
	@packaging/release.sh check
	$(MAKE) dist
	@packaging/release.sh sign

## image: a container image of the program alone, for docker and podman to load, into bin/dist
image: $(ARCHS:%=bin/%/lineage)
	@mkdir -p bin/dist
	for arch in $(ARCHS); do go run ./internal/release image $(VERSION) $(EPOCH) bin/$$arch/lineage > bin/dist/lineage-$(VERSION)-image-$$arch.tar; done

## uninstall: stop, unload and remove it; refused with live sessions; FORCE=1, PURGE=1 (root)
uninstall:
	@packaging/uninstall.sh

## programs: the test programs, static, into bin/testdata/
programs: $(PROGRAMS)

bin/testdata/lngtest-%: testdata/programs/%.c testdata/programs/lngtest.h
	@mkdir -p $(@D)
	gcc $(CFLAGS) -static -pthread -o $@ $<

# The same programs for TestFaults, in which a helper fails: bpf/faults.h.
FAULTY := -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -target bpfel -fdebug-compilation-dir=. -include faults.h

## generate: compile the BPF programs and write their Go (needs deps-generate)
generate:
	go generate ./bpf
	cd bpf && clang-19 $(FAULTY) -c lineage.bpf.c -o ../tracer/testdata/faults-lineage.o
	cd bpf && clang-19 $(FAULTY) -DBASELINE= -c baseline.bpf.c -o ../tracer/testdata/faults-baseline.o
	llvm-strip-19 -g tracer/testdata/faults-*.o
	clang-19 --version | head -n 1 > bpf/clang-version

## deps: install what the tests need and this system lacks (Debian, root)
deps:
	@$(call install,$(TEST_PACKAGES))

## deps-lint: the same for lint
deps-lint: .cache/bin/$(GOLANGCI) .cache/bin/$(ACTIONLINT)
	@$(call install,$(TEST_PACKAGES) $(LINT_PACKAGES))

## deps-generate: the same for generate
deps-generate:
	@$(call install,$(C_PACKAGES))

# install installs those of the packages $(1) that are missing.
define install
missing=(); \
for p in $(1); do \
	[ "$$(dpkg-query -Wf '$${Status}' $$p 2>/dev/null)" = 'install ok installed' ] || missing+=($$p); \
done; \
if [ $${#missing[@]} -gt 0 ]; then \
	apt-get update -qq; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}"; \
fi
endef

.cache/bin/$(NFPM):
	GOFLAGS= GOBIN=$(CURDIR)/.cache/bin go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM:nfpm-%=%)
	mv .cache/bin/nfpm $@

.cache/bin/$(GOLANGCI):
	GOFLAGS= GOBIN=$(CURDIR)/.cache/bin go install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI:golangci-lint-%=%)
	mv .cache/bin/golangci-lint $@

.cache/bin/$(ACTIONLINT):
	GOFLAGS= GOBIN=$(CURDIR)/.cache/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT:actionlint-%=%)
	mv .cache/bin/actionlint $@

## test: everything, as root, on this kernel; sets up what it needs
test: deps build programs
	@rm -f bin/test.log
	$(PRIVATE) $(GOTEST) $(ALONE) -timeout 30m $(EVERY)
	$(GOTEST) -run TestTopPanics ./cmd/lineage
	@$(MAKE) test-e2e test-library test-recipes test-escapes test-install test-alerts leftovers
	@$(GOTEST) --counts

# Without LNGTEST, as in test-unit, the tests of these targets are skipped.
test-e2e test-export test-link test-agents test-fleet test-library test-brokers test-image test-recipes test-escapes test-install test-packages test-systemd compare compare-systemd: export LNGTEST = 1

## model: search the model of the protocol (internal/protocol) in its larger sizes (1 h, 4 GB); STATES=60000000, RUN=keeps
model: STATES ?= 60000000
model:
	LNGTEST_STATES=$(STATES) go test -count 1 -timeout 4h -v -run '(TestHoldsLarge|TestPast)/$(RUN)' ./internal/protocol

## bugs: each bug of testdata/bugs.tsv on the commit before its fix (2 h, root); writes docs/results/bugs.md
bugs: programs
	testdata/bugs.sh

## slices: 100 sessions of storms at each level have to be runs of the model of the protocol; the figures say how many (root)
slices: programs
	LNGTEST=1 LNGTEST_SLICES=100 testdata/bpffs.sh $(GOTEST) -timeout 60m -run TestSlices ./tracer

## simulate: the daemon over a kernel and a disk that fail, 100,000 seeds, and without single precautions (daemon/simulation; 1 h); SEEDS=100000
simulate: SEEDS ?= 100000
simulate:
	LNGTEST_SEEDS=$(SEEDS) LNGTEST_MUTANTS=1 go test -count 1 -timeout 4h -v -run 'TestSimulation|TestMutants' ./daemon/simulation

## nightly: what tests what changes seldom (hours, root); STAGES="race agents"; writes docs/results/nightly.md
nightly:
	.ci/run nightly $(STAGES)

## fresh: what README.md's first lines run, with sudo, in a minimal Debian 12 with only Go, git, make and sudo, from a clone of HEAD in its /root (1 h, root)
fresh:
	@$(call install,$(FRESH_PACKAGES))
	testdata/fresh.sh

## test-unit: what needs no root
test-unit:
	go test $(EVERY)

## test-race: the packages' tests under the race detector, as root
test-race:
	$(PRIVATE) $(GOTEST) -race -p 1 -timeout 30m $(EVERY)

## test-reverse: the daemon's tests with the hooks of its features attached in reverse, as no feature may depend on the order
test-reverse:
	LNGTEST_REVERSE=1 $(PRIVATE) $(GOTEST) -skip 'Real|Dead|Crowd|Slow|Fuzz' ./daemon/...

## cover: fail if a package of more than 300 lines has own tests for less than 60 % of its statements
cover:
	$(PRIVATE) testdata/cover.sh

## test-e2e: bin/lineage against the test programs, as root; LNGTEST_ROUNDS, LNGTEST_KILLS, LNGTEST_SOAK, LNGTEST_REQUESTS
test-e2e: build programs
	$(PRIVATE) $(GOTEST) -timeout $(or $(E2E_TIMEOUT),20m) ./internal/e2e
	$(PRIVATE) $(GOTEST) -timeout 20m -skip '^Test(Delivery|Logrotate)$$' ./internal/e2e/export # make test-export has them

## test-library: escape programs through the libraries of api/run (1 min, root)
test-library: deps build programs
	$(PRIVATE) $(GOTEST) -timeout 10m ./internal/e2e/library

## coreutils: lineage timeout with every escape program, and with coreutils' own tests of timeout(1), from Debian's source package (10 min, root)
coreutils: export LNGTEST = 1
coreutils: export LNGTEST_CELLS = all
coreutils: export LNGTEST_COREUTILS = $(CURDIR)/.cache/coreutils
coreutils: build programs
	testdata/fetch-coreutils.sh $(LNGTEST_COREUTILS)
	$(PRIVATE) $(GOTEST) -timeout 30m -run 'TestDoors|TestCoreutils' ./internal/e2e/escapes
	@$(MAKE) leftovers

## test-fleet: lineage -H against ten sshd on the loopback (root)
test-fleet: build programs
	@$(call install,openssh-server openssh-client)
	$(PRIVATE) $(GOTEST) -timeout 10m ./internal/e2e/fleet

## test-export: lineage export against a Collector and ClickHouse's engine, which it builds or fetches (10 min the first time; root); SECONDS=3600: each outage for 10 min (2 h)
test-export: export LNGTEST_TELEMETRY = $(CURDIR)/.cache/telemetry
test-export: export LNGTEST_SECONDS = $(or $(SECONDS),30)
test-export: build programs
	testdata/fetch-collector.sh $(LNGTEST_TELEMETRY)
	@command -v npm >/dev/null || { $(call install,$(AGENT_PACKAGES)); }
	testdata/fetch-chdb.sh $(LNGTEST_TELEMETRY)
	$(PRIVATE) $(GOTEST) -timeout 4h ./internal/e2e/export

## test-link: packaging/nats in a NATS server, which it builds, and lineage link: killed, cut off, flooded (1 min, root); OUTAGE=10m; MESSAGES=100000 of a hostile bus (3 min)
test-link: export LNGTEST_OUTAGE = $(OUTAGE)
test-link: build programs bin/testdata/nats-server
	@$(call install,openssh-server)
	MODULE=internal/nats $(GOTEST) ./...
	LNGTEST_MESSAGES=$(MESSAGES) $(PRIVATE) $(GOTEST) -timeout 4h ./cmd/lineage-link

## crowd: whether -H names those of 500 links that are cut off, and what all cost a NATS server with packaging/nats (1 min, root); HOSTS=500
crowd: export LNGTEST = 1
crowd: export LNGTEST_HOSTS = $(or $(HOSTS),500)
crowd: build programs bin/testdata/nats-server
	$(PRIVATE) $(GOTEST) -timeout 5m -run TestSilent ./cmd/lineage-link

# Modules of their own: what they need is not what lineage needs.
bin/testdata/cri: internal/cri/main.go internal/cri/go.mod internal/cri/go.sum
	CGO_ENABLED=0 go build -C internal/cri -trimpath -ldflags '-s -w' -o ../../$@ .

bin/testdata/nats-server: internal/nats/go.mod internal/nats/go.sum
	CGO_ENABLED=0 go build -C internal/nats -trimpath -ldflags '-s -w' -o ../../$@ github.com/nats-io/nats-server/v2

## test-brokers: the same against tmux, at, cron, dockerd (with runc and crun) and containerd (with ctr and as a kubelet), which it installs (4 min, root)
test-brokers: build programs bin/testdata/cri
	@$(call install,$(BROKER_PACKAGES))
	$(PRIVATE) $(GOTEST) -timeout 10m ./internal/e2e/brokers

## test-image: the image in docker, which it installs: init, client, daemon, and the daemon without each of its privileges (2 min, root)
test-image: export LNGTEST_IMAGE = $(CURDIR)/bin/dist/lineage-$(VERSION)-image-$(HERE).tar
test-image: programs
	@$(call install,$(DOCKER_PACKAGES))
	$(MAKE) image ARCHS=$(HERE)
	$(PRIVATE) $(GOTEST) -timeout 10m ./internal/e2e/image

## test-e2e-long: the same, 200 rounds, 500 kills of the daemon, 5 M forks
test-e2e-long: export LNGTEST_ROUNDS = 200
test-e2e-long: export LNGTEST_KILLS = 500
test-e2e-long: export LNGTEST_SOAK = 5000000
test-e2e-long: export LNGTEST_DEPTH = 5000
test-e2e-long: export LNGTEST_BRANCHES = 100
test-e2e-long: export LNGTEST_SESSIONS = 10000
test-e2e-long: E2E_TIMEOUT = 1h
test-e2e-long: test-e2e leftovers

## test-recipes: what docs/RECIPES.md, docs/AGENTS.md and docs/TUTORIAL.md show, as root
test-recipes: deps build programs
	$(PRIVATE) $(GOTEST) ./internal/e2e/recipes

## test-agents: real coding agents with a scripted model, as root; writes docs/AGENTS.md; AGENTS="claude-code codex", ROWS=expression
AGENTS := claude-code codex gemini-cli opencode
test-agents: export LNGTEST_PAGE = $(if $(ROWS),,$(if $(filter-out $(AGENTS),claude-code codex gemini-cli opencode),,$(CURDIR)/docs/AGENTS.md))
test-agents: build programs
	@command -v npm >/dev/null || { $(call install,$(AGENT_PACKAGES)); }
	@testdata/fetch-agents.sh .cache/agents $(AGENTS)
	LNGTEST_AGENTS='$(AGENTS)' $(PRIVATE) $(GOTEST) -timeout 30m -run '$(ROWS)' ./internal/e2e/agents

## test-escapes: every way out of a session, as root, each level and each failure once; LNGTEST_ROWS, LNGTEST_ROUNDS
test-escapes: build programs
	$(PRIVATE) $(GOTEST) -timeout 3h -skip TestOthers ./internal/e2e/escapes

## escapes: the same at every level, idle and busy (10 min); writes docs/results/escapes.md
escapes escapes-long: export LNGTEST_CELLS = all
escapes: export LNGTEST_ROUNDS = 12
escapes: export LNGTEST_TABLE = $(CURDIR)/docs/results/escapes.md:every cell
escapes escapes-long: test-escapes leftovers

## escapes-long: rows 11, 14 and 22 200 times in each cell (40 min); writes docs/results/escapes.md
escapes-long: export LNGTEST_ROWS = 11,14,22
escapes-long: export LNGTEST_ROUNDS = 200
escapes-long: export LNGTEST_TABLE = $(CURDIR)/docs/results/escapes.md:long

## compare: what process groups, psutil, cookies, tini and cgroup.kill leave behind (6 min, root); writes README.md
compare: export LNGTEST_PAGE = $(CURDIR)/README.md
compare: build programs
	@$(call install,tini python3-psutil)
	$(PRIVATE) $(GOTEST) -timeout 20m -run TestOthers ./internal/e2e/escapes

## compare-systemd: the same for systemd-run, under a real systemd, in a virtual machine (15 min); writes docs/results/escapes.md
compare-systemd: export LNGTEST_PAGE = $(CURDIR)/docs/results/escapes.md
compare-systemd: build programs
	@$(call install,$(VM_PACKAGES))
	$(GOTEST) -timeout 40m -run TestCompare ./internal/vm/systemd

## vm: bin/matrix, which runs tests under other kernels, in QEMU
vm: build programs
	@$(call install,$(VM_PACKAGES))
	testdata/vm/fetch-qemu.sh .cache/qemu
	testdata/vm/fetch-kernels.sh .cache/kernels $(or $(KERNEL),$(KERNELS))
	@$(MAKE) corecheck
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/vminit ./internal/vm/init
	go build -o bin/matrix ./internal/vm/matrix

## corecheck: what the programs need and a kernel has not, by its types, nothing is loaded: this kernel, and those that make vm has fetched; BTF=folder of others
corecheck:
	LNGTEST_BTF="$(if $(BTF),$$(find "$$(realpath $(BTF))" -type f),$(abspath $(wildcard /sys/kernel/btf/vmlinux .cache/kernels/*-amd64/btf)))" \
		go test -count=1 -run '^TestKernels$$' ./internal/corecheck

## test-kernels: the tests under other kernels, in QEMU (hours); KERNEL="6.1 7", CELL, SUITE and RUN=expression, JOBS=2, KVM=1
test-kernels: vm
	@mkdir -p bin/tests
	for p in $(VM_TESTS); do CGO_ENABLED=0 go test -c -ldflags '-s -w' -o bin/tests/$${p//\//_}.test ./$$p; done
	bin/matrix -j $(or $(JOBS),1) -kernel '$(KERNEL)' -cell '$(CELL)' -suite '$(SUITE)' -run '$(RUN)' $(if $(KVM),-kvm) $(MATRIX_FLAGS)

## test-arm64: whether sessions are kept and ended on arm64, in QEMU (10 min)
test-arm64: export GOARCH = arm64
test-arm64: export CGO_ENABLED = 0
test-arm64: vm-arm64
	GOARCH= go run ./internal/vm/matrix -arch arm64 $(MATRIX_FLAGS)

# What is built for the guest goes into bin/arm64.
ARM_PROGRAMS := $(patsubst bin/testdata/%,bin/arm64/testdata/%,$(PROGRAMS))
vm-arm64: $(ARM_PROGRAMS) bin/arm64/lineage
	testdata/vm/fetch-arm64.sh .cache/arm64 $(ARM_KERNELS)
	cp .cache/arm64/busybox bin/arm64/
	go build -trimpath -ldflags '-s -w' -o bin/arm64/vminit ./internal/vm/init
	go test -c -ldflags '-s -w' -o bin/arm64/tests/tracer.test ./tracer

bin/arm64/testdata/lngtest-%: testdata/programs/%.c testdata/programs/lngtest.h
	@mkdir -p $(@D)
	@$(call install,$(ARM_PACKAGES))
	aarch64-linux-gnu-gcc $(CFLAGS) -static -pthread -o $@ $<

## test-install: install, install again and uninstall, into a folder
test-install: all
	$(GOTEST) ./internal/e2e/install

## test-packages: packages unpacked and checked, dist built twice and compared (2 min, root)
test-packages: dist
	@$(call install,$(PACKAGE_PACKAGES))
	$(GOTEST) -timeout 40m ./internal/e2e/packages

## test-alerts: packaging/alerts.yml and the dashboard's queries, by promtool, which it fetches
test-alerts:
	testdata/fetch-promtool.sh .cache/promtool
	.cache/promtool/promtool check rules packaging/alerts.yml
	.cache/promtool/promtool test rules packaging/alerts_test.yml
	go test -run TestQueries ./internal/arch

## test-systemd: installed, and as a package, under a real systemd, in a virtual machine (30 min); LNGTEST_CHECKS="watchdog socket", LNGTEST_SESSIONS
test-systemd: all deb
	@$(call install,$(VM_PACKAGES))
	$(GOTEST) -timeout 100m ./internal/vm/systemd

## test-faults: each call of a BPF helper that can fail, failing alone and with those after it (20 min, root)
test-faults: export LNGTEST_FAULTS = all
test-faults: build programs
	$(PRIVATE) $(GOTEST) -timeout 2h -run TestFaults ./tracer

## liveness: what must happen in the end, by Spin: docs/model (2 min)
liveness:
	@$(call install,$(MODEL_PACKAGES))
	testdata/liveness.sh

## leftovers: fail if the tests left a process, a mount, a cgroup or a file
leftovers:
	@testdata/leftovers.sh

## lint: gofmt, golangci-lint (with go vet, on other systems beside it), clang-format, gcc -Wall, shellcheck, actionlint (needs deps-lint)
lint: programs
	test -z "$$(gofmt -l . | tee -a /dev/stderr)"
	test -z "$$(git ls-files '*testdata/*.go' | tee -a /dev/stderr)" # ./... does not see testdata
	go vet -tags man ./cmd/lineage
	GOOS=linux GOARCH=arm64 go vet ./bpf ./tracer/... ./cmd/lineage/urgent
	GOOS=darwin go vet -C api ./...
	GOOS=darwin go vet ./lineage ./tracer ./tui/... ./daemon/document
	for module in . api; do (cd $$module && $(CURDIR)/.cache/bin/$(GOLANGCI) run ./...); done
	clang-format-19 --dry-run -Werror $$(git ls-files '*.c' '*.h')
	shellcheck -x .ci/run $$(git ls-files '*.sh')
	.cache/bin/$(ACTIONLINT)

## docs: write COMMANDS.md, POLICY.md, openapi.json and the tables of TOP, MONITORING, SIEM, TELEMETRY, CODEBASE.md and results/kernels.md
docs: build
	docs/commands.sh > docs/COMMANDS.md
	go test ./tui/ink -run TestDocument -update
	go run ./internal/vm/matrix -pages
	go test ./daemon/system -run TestDocument -update
	go test ./enforcer/policy -run 'TestDocument|TestSchema' -update
	go test ./internal/openapi -run TestDocument -update
	go test ./cmd/lineage-export/ocsf -run TestFields -update
	go test ./cmd/lineage-export/otlp -run TestAttributes -update
	go test ./internal/arch -run TestCodebase -update

## docs-check: fail if a written document or a link is out of date, or a linked module has no licence that is allowed
docs-check: build
	docs/commands.sh | diff -u docs/COMMANDS.md -
	go run ./internal/release notices bin/lineage $(HELPERS:%=bin/%) > /dev/null
	go test ./tui/ink -run TestDocument
	go run ./internal/vm/matrix -check
	go test ./daemon/system ./enforcer/policy -run 'TestDocument|TestSchema'
	go test ./internal/openapi
	go test ./cmd/lineage-export/ocsf ./cmd/lineage-export/otlp -run 'TestFields|TestAttributes'
	go test ./internal/arch -run 'TestCodebase|TestLinks|TestWords|TestDocWords'

## demo: the story on real processes: daemonised, orphaned, explained, ended (root)
demo: build
	@testdata/demo.sh

## test-pictures: the page of a session in Chromium, which it installs (120 MB) (2 min, root)
test-pictures:
	@$(call install,$(PICTURE_PACKAGES))
	LNGTEST_BROWSER=1 $(GOTEST) -run 'TestScripts|TestFind|TestFacts' ./cmd/lineage/html

## site: the documentation as pages with search, to open from a folder, in bin/site (1 min, root)
site:
	@$(call install,$(SITE_PACKAGES))
	rm -rf bin/site
	sphinx-build -q -W --keep-going -E -d bin/doctrees -c packaging/site . bin/site

## pictures: docs/pictures, of lineage top and of a page, on real sessions (root)
pictures: deps build programs
	testdata/pictures.sh
	@$(call install,$(PICTURE_PACKAGES))
	testdata/page.sh

## fuzz: each fuzz target for FUZZTIME (20s); FUZZ is an expression of their names
fuzz:
	testdata/fuzz.sh

## fuzz-requests: requests of a member and of a plain user to all routes for SECONDS (600), and what the daemon keeps of them (root)
fuzz-requests: build programs
	LNGTEST=1 LNGTEST_REQUESTS=$(or $(SECONDS),600) $(PRIVATE) $(GOTEST) -v -timeout 1h -run '^TestRequests$$' ./internal/e2e

## bench: every figure of BENCHMARKS.md, which it writes (5 min, root); BENCH=expression: only these parts, into bin/bench.txt
bench: deps build programs
	CGO_ENABLED=0 go build -o bin/bench ./internal/bench
	$(PRIVATE) bin/bench -bench '$(BENCH)' $(if $(BENCH),,-page) > bin/bench.txt
	$(if $(BENCH),cat bin/bench.txt)

## compare-cost: go build and npm ci under nothing, lineage and execsnoop (20 min, root); writes BENCHMARKS.md
compare-cost: build
	@$(call install,bpftrace)
	CGO_ENABLED=0 go build -o bin/bench ./internal/bench
	$(PRIVATE) bin/bench -bench cost -page > bin/bench.txt

## idle: CPU time of a quiet daemon, in pairs with another binary: OLD=path, PAIRS=3, SECONDS=60 (PAIRS x 5 min, root)
idle: build
	$(PRIVATE) testdata/idle.sh $(or $(OLD),bin/lineage) bin/lineage $(or $(PAIRS),3) $(or $(SECONDS),60)

## pairs: this build beside an older binary, OLD=path: ends, events, answers and memory as ratios (4 min, root)
pairs: build programs
	CGO_ENABLED=0 go build -o bin/bench ./internal/bench
	$(PRIVATE) bin/bench -old $(OLD)

## size: lines of code by hand, by capability, words for users, and flags; AT=COMMIT
size:
	@testdata/size.sh $(AT)

## size-update: lower the numbers of testdata/size.tsv to what there is
size-update:
	go test ./internal/arch -count=1 -run '^TestSize$$' -args -update

## size-check: compare the sums of testdata/size.tsv with those of main
size-check:
	testdata/size-check.sh

## fmt: format Go and C
fmt:
	gofmt -w .
	clang-format-19 -i $$(git ls-files '*.c' '*.h')

## clean: remove bin/
clean:
	rm -rf bin
