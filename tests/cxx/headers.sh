#!/usr/bin/env bash
# headers.sh INCLUDE: each public header compiles alone, without a warning, under every standard that it is for, with and
# without exceptions and run-time types, with gcc and with clang where there is one.
set -uo pipefail
include=$1
passed=0 failed=0

compiles() { # compiles HEADER COMPILER FLAG...
    local header=$1
    shift
    if printf '#include <keel/%s>\n' "$header" |
        "$@" -I "$include" -Wall -Wextra -Wpedantic -Werror -fsyntax-only - 2>log; then
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
            keel.hpp) standards="17 20" only_cxx=1 ;;
            *.hpp | *new-delete.h) standards="11 14 17 20" only_cxx=1 ;;
            *) standards="11 17" only_cxx=0 ;;
        esac
        for standard in $standards; do
            compiles "$header" "$cxx" -x c++ "-std=c++$standard"
            compiles "$header" "$cxx" -x c++ "-std=c++$standard" -fno-exceptions -fno-rtti
        done
        [ $only_cxx = 0 ] || continue
        for standard in c11 c17 gnu17; do compiles "$header" "$cc" -x c "-std=$standard"; done
    done
done
rm -rf "$PWD"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
