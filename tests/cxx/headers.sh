#!/usr/bin/env bash
# headers.sh INCLUDE: checks that each public header compiles alone without a warning, under every
# standard that it supports, with and without exceptions and RTTI, with gcc and, if installed,
# clang.
set -uo pipefail
include=$1
passed=0 failed=0

# The warnings of a strict program.
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-align
    -Wcast-qual)

compiles() { # compiles HEADER COMPILER FLAG...: also uses the macros of some headers
    local header=$1 use="" expression=""
    shift
    case $header in
        keel.h) expression="kl_recalloc_of(kl_calloc_of(int, 3), int, 9)" ;;
        heap.h) expression="kl_heap_calloc_of(kl_heap_new(), int, 3)" ;;
        mimalloc.h) expression="mi_heap_zalloc_tp(mi_heap_new(), int)" ;;
    esac
    [ -z "$expression" ] || use="int* use(void); int* use(void) { return $expression; }"
    if printf '#include <keel/%s>\n%s\n' "$header" "$use" |
        "$@" -I "$include" "${warnings[@]}" -Werror -fsyntax-only - 2>log; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $header: $*"
        cat log
    fi
}

cd "$(mktemp -d)" || exit 1
for pair in gcc:g++ clang:clang++; do
    cc=${pair%:*} cxx=${pair#*:}
    command -v "$cxx" >/dev/null || continue
    for path in "$include"/keel/*.h* "$include"/keel/mimalloc/*.h; do
        header=${path#"$include"/keel/}
        case $header in
            keel.hpp) standards="17 20 2b" only_cxx=1 ;;
            *.hpp | *new-delete.h) standards="11 14 17 20 2b" only_cxx=1 ;;
            *) standards="11 14 17 20 2b" only_cxx=0 ;;
        esac
        for standard in $standards; do
            compiles "$header" "$cxx" -x c++ "-std=c++$standard" -Wold-style-cast \
                -Woverloaded-virtual
        done
        compiles "$header" "$cxx" -x c++ -std=c++17 -fno-exceptions -fno-rtti
        [ $only_cxx = 0 ] || continue
        for standard in c11 c17 gnu17 c2x; do
            compiles "$header" "$cc" -x c "-std=$standard" -Wstrict-prototypes -Wmissing-prototypes
        done
    done
done
rm -rf "$PWD"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
