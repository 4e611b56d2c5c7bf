# The one door. `make help` lists what is behind it.
.DEFAULT_GOAL := help
SHELL := bash
PREFIX ?= /usr/local
BUILD := build
FUZZ_SECONDS ?= 30

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what building, testing and the demo need (apt as root), or print the one line that does
	@scripts/setup.sh build test check

build: ## build/bin/keel, build/lib/libkeel.{so,a}, build/lib/libkeel_record{er.so,.so,.a}, build/include/keel/
	@scripts/setup.sh build
	@scripts/build.sh

demo: ## build, then record and compare a real program and a real game; says where the reports lie
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/demo.sh

test: ## every test, with counts at the end (at most 25 minutes on 2 cores)
	@scripts/setup.sh build test
	@scripts/build.sh
	@scripts/test.sh

check: ## format, lints, layers, limits, links
	@scripts/setup.sh build check
	@scripts/build.sh
	@scripts/check.sh

format: ## format all C and Rust in place
	@cargo fmt --all
	@git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.hpp' | xargs -r clang-format -i

bench: ## both benchmarks; RUNS=5, ONLY=workload,...; raw results are kept in bench/runs/<date>-<machine>/
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh latency throughput

bench-latency: ## the worst single calls of every allocator, event by event, and Keel against its bars
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh latency

bench-throughput: ## what all calls together cost on every allocator, and Keel against its bars
	@scripts/setup.sh build
	@scripts/build.sh
	@scripts/bench.sh throughput

test-arm64: ## the C, cross-compiled for arm64, and its tests under emulation; fetches the compiler and qemu (as root)
	@scripts/setup.sh build test arm64
	@tests/arm64.sh

test-recorded: ## many real programs, recorded with their children: same output, and every journal keeps every rule
	@scripts/setup.sh build test
	@scripts/build.sh
	@cmake --build build/cmake --target overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@tests/recorder/real.sh build/bin/keel build/cmake/tests $(ONLY)

test-programs: ## 40 real programs of Debian with and without Keel: same output; INSTALL=1 fetches them (as root, 3 GB)
	@scripts/setup.sh build test $(if $(INSTALL),programs)
	@scripts/build.sh
	@cmake --build build/cmake --target stress overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@tests/programs/run.sh build/lib/libkeel.so build/cmake/tests --large $(ONLY)

bench-programs: ## their time and memory on glibc, Keel and others; RUNS=3, ONLY="z3 ruby", BESIDE="mimalloc3=/path/lib.so"
	@scripts/setup.sh build test $(if $(INSTALL),programs)
	@scripts/build.sh
	@cmake --build build/cmake --target stress overseer >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	@bench/programs/run.py --rounds $(or $(RUNS),3) $(addprefix --beside ,$(BESIDE)) $(ONLY)

bench-causes: ## what the slowest calls did, every journal of JOURNALS="FOLDER ..." on every allocator; MINUTES=25
	@scripts/setup.sh build
	@scripts/build.sh
	@bench/journals/run.py --pace max --no-pages --minutes $(or $(MINUTES),25) $(or $(JOURNALS),samples)

stress: ## the long multi-threaded stress with verified contents
	@scripts/setup.sh build test
	@scripts/build.sh
	@tests/stress.sh

sanitize: ## unit tests and stress under ASan, UBSan and TSan
	@scripts/setup.sh build check
	@tests/sanitize.sh

fuzz: ## fuzz all importers and salvage for FUZZ_SECONDS each (default 30); findings go to fuzz-findings/
	@scripts/setup.sh build
	@cargo build --release --locked -p keel-import -p keel-unify --examples
	@target/release/examples/fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

install: build ## install into PREFIX (default /usr/local), under DESTDIR if it is given
	@DESTDIR="$(DESTDIR)" scripts/install.sh "$(PREFIX)"

amalgamation: ## all of libkeel as two files: build/amalgamation/keel.c and keel.h
	@python3 scripts/amalgamate.py $(BUILD)/amalgamation

crate: ## the Rust crate keel as a package that needs nothing of this folder: build/crate/keel-VERSION.crate
	@scripts/setup.sh build
	@scripts/crate.sh $(BUILD)/crate

docs: ## the Rust documentation of the lab, in target/doc
	@cargo doc --no-deps --workspace

clean: ## remove everything that was built
	@rm -rf $(BUILD) target lab/peers/target lab/peers/*/target

.PHONY: help setup build demo test test-recorded test-programs test-arm64 check format bench bench-latency bench-throughput bench-programs bench-causes stress sanitize fuzz install amalgamation crate docs clean
