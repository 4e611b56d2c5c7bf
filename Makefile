# `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
PREFIX ?= /usr/local
BUILD := build
FUZZ_SECONDS ?= 30
FLAVOURS := $(addprefix $(BUILD)/lib/libkeel,.so -secure.so -debug.so)

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the tools for building and testing (with apt, as root), or print the command
	@scripts/setup.sh build test check

build: ## build the keel command, the libraries, the headers and the peer allocators into build/
	@scripts/setup.sh build
	@scripts/build.sh

demo: ## build, then record and compare a real program and a real game, with a page for each
	@scripts/demo.sh announce
	@scripts/setup.sh build
	@scripts/build.sh demo
	@scripts/demo.sh

test: ## run the tests that a change needs; the others run in `make test-all`
	@scripts/setup.sh build test
	@scripts/build.sh tests
	@scripts/test.sh

test-all: ## run every test (about 25 minutes on 2 processors)
	@scripts/setup.sh build test
	@scripts/build.sh tests
	@scripts/test.sh all

check: ## check format, lints, layers, lengths, words and links
	@scripts/setup.sh build check
	@scripts/build.sh tests
	@scripts/check.sh

format: ## format all C and Rust sources in place
	@cargo fmt --all
	@git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.hpp' | xargs -r clang-format -i

bench: ## run both benchmark suites; RUNS=5 ONLY=workload,...; results go to bench/runs/<date>-<machine>/
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh latency throughput

bench-latency: ## measure the slowest individual calls of every allocator, and compare Keel with its targets
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh latency

bench-throughput: ## measure the cost of all calls on every allocator, and compare Keel with its targets
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh throughput

test-attacks: ## run attacks of other projects; SUITES="hardened_malloc=FOLDER how2heap=FOLDER ..."
	@scripts/setup.sh build
	@scripts/build.sh
	@tests/attacks/run.py secure=build/lib/libkeel-secure.so debug=build/lib/libkeel-debug.so \
	    zero=build/lib/libkeel-secure.so,KEEL_ZERO_ON_FREE=1 --check tests/attacks/verdicts.txt $(SUITES)

test-secure: ## run the C tests on the secure flavour, libkeel-secure (about 10 minutes)
	@scripts/setup.sh build test
	@cmake -S . -B build/cmake-secure-tests -G Ninja -DKEEL_SECURE=ON
	@cmake --build build/cmake-secure-tests
	@ctest --test-dir build/cmake-secure-tests --output-on-failure

test-debug: ## run the C tests on the debug flavour, libkeel-debug (about 15 minutes)
	@scripts/setup.sh build test
	@cmake -S . -B build/cmake-debug-tests -G Ninja -DKEEL_DEBUG=ON
	@cmake --build build/cmake-debug-tests
	@ctest --test-dir build/cmake-debug-tests --output-on-failure

test-arm64: ## run the C tests for arm64 under emulation; installs the compiler and qemu (as root)
	@scripts/setup.sh build test arm64
	@tests/emulated.sh aarch64

test-architectures: ## the same for riscv64, s390x, ppc64le, loongarch64, arm64 with musl; ONLY="aarch64-musl"
	@scripts/setup.sh build test arm64 architectures
	@tests/architectures.sh $(ONLY)

test-posix: ## run the C tests on the layer of plain POSIX calls, KEEL_OS=posix (about 8 minutes)
	@scripts/setup.sh build test
	@tests/platforms.sh posix
	@tests/platforms.sh emulated-tls quick

test-musl: ## run the C tests with musl; installs musl and npm (as root), downloads SQLite by npm
	@scripts/setup.sh build test musl
	@scripts/build.sh
	@tests/platforms.sh musl

test-windows: ## run the C tests for Windows under Wine; installs clang, mingw-w64 and Wine (as root)
	@scripts/setup.sh build test windows
	@tests/windows.sh

test-lab-elsewhere: ## compare keel for Windows under Wine with keel on Linux, link it for macOS (root; rustup's targets)
	@scripts/setup.sh build windows lab-elsewhere
	@scripts/build.sh
	@tests/elsewhere.sh

test-macos: ## compile and link libkeel for macOS with Zig; nothing is run (needs pip install ziglang)
	@tests/macos.sh

test-bsd: ## compile and link libkeel for FreeBSD, NetBSD and OpenBSD with Zig; nothing is run (needs pip install ziglang)
	@tests/bsd.sh

test-android: ## compile and link libkeel for Android; installs clang 19 (as root); BIONIC=a checkout of bionic
	@scripts/setup.sh build android
	@tests/android.sh $(BIONIC)

test-dragonfly: ## compile and link libkeel for DragonFly; installs clang 19 (as root); SOURCES=a checkout of DragonFlyBSD
	@scripts/setup.sh build android
	@tests/dragonfly.sh $(SOURCES)

test-recorded: ## record real programs with their child processes, and check their output and every journal
	@scripts/setup.sh build test
	@scripts/build.sh
	@cmake --build build/cmake --target overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@tests/recorder/real.sh build/bin/keel build/cmake/tests $(ONLY)

test-programs: ## run real programs with and without Keel and compare their outputs; INSTALL=1 installs them (3 GB)
	@scripts/setup.sh build test $(if $(INSTALL),programs)
	@scripts/build.sh
	@cmake --build build/cmake --target stress overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@tests/programs/run.sh build/lib/libkeel.so build/cmake/tests --large $(ONLY)

test-systems: ## run suites and programs on other systems of Debian (root; 4 GB, 2 hours); ONLY="trixie group"
	@scripts/setup.sh build systems
	@scripts/build.sh
	@tests/systems/run.py build/lib build/systems $(ONLY)

test-neighbours: ## run programs beside other preloaded libraries and in sandboxes (root; 1 hour); INSTALL=1 installs them
	@scripts/setup.sh build test neighbours
	@$(if $(INSTALL),tests/neighbours/run.py --install)
	@scripts/build.sh
	@tests/neighbours/run.py $(FLAVOURS)
	@tests/neighbours/sandboxes.sh $(FLAVOURS)

bench-programs: ## measure these programs on several allocators; RUNS=3 ONLY="z3 ruby" BESIDE="mimalloc3=/path/lib.so"
	@scripts/setup.sh build test $(if $(INSTALL),programs)
	@scripts/build.sh
	@cmake --build build/cmake --target stress overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@bench/programs/run.py --rounds $(or $(RUNS),3) $(addprefix --beside ,$(BESIDE)) $(ONLY)

bench-patterns: ## measure 85 patterns of use on several allocators; RUNS=3 ONLY="turn-6m" RANDOM=60 BESIDE="mimalloc3=/path/lib.so"
	@scripts/setup.sh build bench
	@scripts/build.sh
	@bench/patterns/run.py --rounds $(or $(RUNS),3) $(addprefix --beside ,$(BESIDE)) $(addprefix --random ,$(RANDOM)) $(ONLY)

bench-suite: ## run whole programs on every allocator; QUICK=1 takes minutes; OUT=suite is the folder with the page
	@scripts/setup.sh build
	@scripts/build.sh
	@build/bin/keel bench --suite $(if $(QUICK),--quick) -o $(or $(OUT),suite)

bench-causes: ## show the causes of the slowest calls on every allocator; JOURNALS="FOLDER ..." MINUTES=25
	@scripts/setup.sh build
	@scripts/build.sh
	@bench/journals/run.py --pace max --no-pages --minutes $(or $(MINUTES),25) $(or $(JOURNALS),samples)

bench-bias: ## measure calls of known cost; fails if one differs by more than 3 ns and 2 % (needs a quiet machine)
	@scripts/setup.sh build
	@KEEL_QUIET_MACHINE=1 cargo test --workspace --locked --release --test bias -- --nocapture

bench-blind: ## compare a library with itself, and with itself 3 % slower; COMPARISONS=100 JOURNAL=FILE
	@scripts/setup.sh build
	@scripts/build.sh
	@bench/blind/run.py --comparisons $(or $(COMPARISONS),100) $(JOURNAL)

mutants: ## put small faults into the allocator, one at a time, and show which ones the tests detect
	@scripts/setup.sh build test
	@tests/mutants/run.py $(ONLY)

stress: ## run random tests for 10 minutes: the torture, in which the system refuses calls, and the stress test
	@scripts/setup.sh build test
	@scripts/build.sh
	@tests/stress.sh

test-others: ## run other projects' tests of malloc, with and without Keel; SUITES="glibc=FOLDER python ..."
	@scripts/setup.sh build
	@scripts/build.sh
	@tests/others/run.sh build/lib/libkeel.so $(or $(SUITES),glibc jemalloc ltp redis stress-ng python)

prove: ## prove properties of size classes and bit operations for every value (needs frama-c-base)
	@tests/proofs/run.sh

test-attach: ## attach to real programs 100 times each; ATTACH_ROUNDS=1000, ONLY="redis nginx"
	@scripts/setup.sh build
	@scripts/build.sh
	@tests/attach.sh build/bin/keel $(or $(ATTACH_ROUNDS),100) $(ONLY)

soak: ## run a mixed load for SOAK_SECONDS (default 3600), which fails if the resident memory grows
	@scripts/setup.sh build
	@scripts/build.sh
	@cmake --build build/cmake --target soak >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@build/cmake/tests/soak --seconds $(or $(SOAK_SECONDS),3600)

sanitize: ## run the unit tests and the stress test under ASan, UBSan and TSan
	@scripts/setup.sh build check
	@tests/sanitize.sh

fuzz: ## fuzz every reader for FUZZ_SECONDS each (default 30); findings go to fuzz-findings/
	@scripts/setup.sh build
	@cargo build --release --locked --workspace --bins --example fuzz --example fuzz_results
	@target/release/examples/fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)
	@target/release/examples/fuzz_results --seconds $(FUZZ_SECONDS)

install: build ## install into PREFIX (default /usr/local), below DESTDIR if it is set
	@DESTDIR="$(DESTDIR)" scripts/install.sh "$(PREFIX)"

amalgamation: ## write libkeel as two files, build/amalgamation/keel.c and keel.h
	@python3 scripts/amalgamate.py $(BUILD)/amalgamation

crate: ## write the Rust crate keel-malloc as a package without dependencies into build/crate
	@scripts/setup.sh build
	@scripts/crate.sh $(BUILD)/crate

packages: ## make every package into build/packages, for other systems (docs/guide/install.md)
	@scripts/setup.sh build packages
	@packaging/prefix.sh
	@packaging/tarball.sh
	@packaging/wheel.py
	@packaging/deb.sh
	@scripts/crate.sh $(BUILD)/packages/crate
	@packaging/crates.py
	@packaging/recipes.sh "$(or $(KEEL_URL),file://$(CURDIR)/build/packages)"
	@packaging/checksums.sh

packages-arm64: ## make the archive and the wheel for arm64 into build/packages-arm64
	@scripts/setup.sh build packages arm64
	@export KEEL_MACHINE=aarch64; for part in prefix.sh tarball.sh wheel.py checksums.sh; do \
	    packaging/$$part $(CURDIR)/build/packages-arm64 || exit 1; done

test-packages: ## install, use, upgrade and remove every package in empty roots; ONLY="deb wheel" (as root)
	@scripts/setup.sh build packages test-packages
	@failed=0; for test in $(or $(ONLY),tarball wheel deb sources crates container release $(if $(wildcard build/packages-arm64),arm64)); do \
	    echo "-- $$test"; tests/packages/$$test.sh || failed=1; done; exit $$failed

release: ## check that VERSION=... can be released, and make all packages with checksums; publishes nothing
	@packaging/release.sh "$(VERSION)"

gallery: ## make the pictures of the README and docs/ anew, from comparisons of the supplied recording
	@scripts/setup.sh build test
	@scripts/build.sh tests
	@scripts/gallery.sh

docs: ## build the Rust documentation of the lab in target/doc
	@cargo doc --no-deps --workspace

clean: ## remove all build output
	@rm -rf $(BUILD) target lab/peers/target lab/peers/*/target

.PHONY: help setup build demo test test-all test-secure test-debug test-recorded test-programs test-attach test-systems test-neighbours test-others test-arm64 test-architectures test-posix test-musl test-windows test-lab-elsewhere test-macos test-bsd test-android test-dragonfly check format bench bench-latency bench-throughput bench-programs bench-patterns bench-suite bench-causes bench-bias bench-blind mutants prove stress soak sanitize fuzz install amalgamation crate packages packages-arm64 test-packages release gallery docs clean
