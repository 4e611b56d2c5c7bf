#!/usr/bin/env bash
# The checks that do not run the product: format, lints, documentation, and keel-tidy's checks of
# the repository.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

step() { # step NAME COMMAND...: runs the command and prints whether it succeeded
    local name=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        printf '%-24s ok\n' "$name"
    else
        printf '%-24s FAILED\n' "$name"
        sed 's/^/    /' "$log"
        failed=1
    fi
    rm -f "$log"
}

c_format() {
    git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.hpp' | xargs -r clang-format --dry-run --Werror
}
shell_syntax() {
    local file
    for file in $(git ls-files '*.sh' .ci/run); do bash -n "$file" || return 1; done
    # grep -q ends at the first match. What writes to it may be ended by SIGPIPE, and then pipefail
    # makes the match a failure, now and then.
    ! git grep -nE '[^|]\| *grep +(-[a-z]+ +)*-[a-zA-Z]*q' -- '*.sh' .ci/run
}
# Most changes are not tested under Wine.
windows_syntax() {
    local flags=(--target=x86_64-w64-mingw32 -fsyntax-only -std=c17 -Wall -Wextra -Werror
        -Wno-sign-conversion -D_GNU_SOURCE -D_WIN32_WINNT=0x0603 -DKEEL_SECURE=0 -DKEEL_DEBUG=0
        -DKEEL_COUNT=0 -DKEEL_CHECKED=0 -DKEEL_IS_DLL=1 -I. -Iin_process -Iin_process/include)
    local rooms=in_process/allocator
    clang "${flags[@]}" in_process/base/*.c in_process/os/{guard,memory_checker,posix/absent}.c \
        in_process/os/windows/*.c $rooms/{space,warm,page,large,heap,guarded,alloc,keeper,api}/*.c \
        $rooms/override/windows/*.c in_process/recorder/{windows,no_reader,state,thread,log}.c
}
# As for musl, where nothing of the lab is built.
without_lab() {
    local folder status
    folder=$(mktemp -d)
    cmake -S . -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER=
    status=$?
    rm -rf "$folder"
    return $status
}

rust_format() {
    cargo fmt --all --check &&
        cargo fmt --check --manifest-path tests/rust_consumer/Cargo.toml &&
        cargo fmt --check --manifest-path bindings/rust/Cargo.toml
}
step "rust format" rust_format
step "rust lints" cargo clippy --release --workspace --all-targets --locked -- -D warnings
step "rust docs" env RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --workspace --locked
step "c format" c_format
step "shell syntax" shell_syntax
step "windows syntax" windows_syntax
step "clang syntax" scripts/clang_syntax.py build/cmake
step "configured without lab" without_lab
step "mutations" python3 tests/mutants/run.py --check
step "reference page" python3 scripts/reference.py --check
# With --workspace, as in every build: another selection would compile dependencies anew.
cargo build --release --quiet --locked --workspace --bin keel-tidy || failed=1
tidy=${CARGO_TARGET_DIR:-target}/release/keel-tidy
"$tidy" --build build/cmake || failed=1
# The flavours have sources of their own, and calls that the plain one compiles away.
for flavour in secure debug; do
    step "objects, $flavour" "$tidy" --build build/cmake-$flavour objects
done
exit $failed
