#!/usr/bin/env bash
# Runs tests and prints the total at the end: `N passed, N failed, N skipped`.
#
#   scripts/test.sh        what a change needs: the tests of the parts that differ from the upstream
#                          branch (or from the last commit), and the fast tests of the rest
#   scripts/test.sh all    every test
set -uo pipefail
cd "$(dirname "$0")/.."
export KEEL_PREFIX=$PWD/build
what=${1:-change}
passed=0 failed=0 skipped=0

# suite NAME COMMAND...: runs the command, shows its output, and adds the counts of its last lines,
# in Cargo's form (`test result: ok. 3 passed; 0 failed; 1 ignored`) or in ours (`total: 3 passed, 0
# failed, 1 skipped`).
suite() {
    local name=$1 log status counts
    shift
    log=$(mktemp)
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    counts=$(awk '
        /^test result:/ {
            gsub(/;/, "")
            for (i = 1; i < NF; i++) {
                if ($(i+1) == "passed") p += $i
                if ($(i+1) == "failed") f += $i
                if ($(i+1) == "ignored") s += $i
            }
        }
        /^total: [0-9]+ passed, [0-9]+ failed/ { gsub(/,/, ""); p += $2; f += $4; s += $6 }
        END { print p + 0, f + 0, s + 0 }' "$log")
    read -r p f s <<<"$counts"
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $((p + f + s)) -eq 0 ]; then echo "suite $name reported no test"; f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '== %s: %d passed, %d failed, %d skipped\n' "$name" "$p" "$f" "$s"
    rm -f "$log"
}

# The files that differ from the upstream branch, or without one from the last commit.
changed_files() {
    local base
    base=$(git merge-base HEAD '@{upstream}' 2>/dev/null ||
        git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
}
has_changed() { grep -qE "$1" <<<"$changed"; }
changed=$(changed_files 2>/dev/null)

# The C tests that take minutes each, because they search all orders of steps, run other programs or
# build from an installed prefix. Only the C code and its build can break them.
slow_c='reference|interleavings|checkers|stress|linking|rust|programs'
c_tests() {
    local parts='^(in_process|journal|tests|cmake|bindings)/|CMakeLists.txt'
    if [ "$what" = all ] || has_changed "$parts"; then
        tests/run.sh
    else
        tests/run.sh --fast "$slow_c"
    fi
}

# The unit tests of all crates, and the tests of the crates that differ and of those that record.
# With --workspace, Cargo selects the features of all crates, so it compiles nothing again.
rust_tests() {
    local targets=(--lib --bins) folder file
    if [ "$what" = all ] || has_changed '^Cargo|^rust-toolchain'; then
        targets=()
    else
        for folder in lab/*/ tests/model/; do
            case $folder in
                lab/cli/ | lab/record/) ;;
                *) has_changed "^$folder" || continue ;;
            esac
            for file in "$folder"tests/*.rs; do
                [ ! -f "$file" ] || targets+=(--test "$(basename "$file" .rs)")
            done
        done
    fi
    cargo test --release --workspace --locked --no-fail-fast "${targets[@]}"
}

# The secure flavour under the torture, in the build of `make test-secure`.
secure_torture() {
    local build=build/cmake-secure-tests program status=0
    cmake -S . -B "$build" -G Ninja -DKEEL_SECURE=ON >/dev/null || return 1
    cmake --build "$build" --target torture-plain torture-checked >/dev/null || return 1
    for program in torture-plain torture-checked; do
        "$build/tests/$program" --seconds 30 --seed 1 || status=1
    done
    return $status
}

python_environment() { # for the tests that read journals with other programs than Keel
    [ -x build/venv/bin/python ] || python3 -m venv build/venv || return 1
    build/venv/bin/python -c 'import pyarrow, duckdb, pandas, polars' 2>/dev/null ||
        build/venv/bin/pip install -q pyarrow duckdb pandas polars
}

python_environment ||
    echo "cannot create the Python environment: tests with other readers of journals are skipped"
suite "C: allocator and recorder" c_tests
if [ "$what" = all ]; then
    suite "C: torture of the secure flavour" secure_torture
    suite "C: the layer of plain POSIX calls" tests/platforms.sh posix quick
    suite "programs, recorded" tests/recorder/real.sh build/bin/keel build/cmake/tests \
        sort perl sqlite node redis
    suite "programs, recorded again" tests/recorder/repeat.sh build/bin/keel build/cmake/tests
    suite "programs with budgets" tests/check/programs.sh build/bin/keel
    suite "names of allocators" tests/recorder/names.sh build/bin/keel build/lib
fi
suite "Rust" rust_tests

echo
echo "$passed passed, $failed failed, $skipped skipped"
if [ -n "${CI:-}" ] && [ "$skipped" -gt 0 ]; then
    echo "no test may be skipped in CI" >&2
    exit 1
fi
[ "$failed" -eq 0 ]
