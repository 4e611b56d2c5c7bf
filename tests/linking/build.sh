#!/usr/bin/env bash
# build.sh GENERATOR SOURCES WORK: builds Keel from its sources with CMake as docs/guide/linking.md
# states, with this generator and four jobs; first the libraries alone, which are installed and
# linked, then some of the tests too. GENERATOR `default` means no -G: CMake's default, Unix
# Makefiles.
set -uo pipefail
generator=$1 sources=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
unset CFLAGS CXXFLAGS LDFLAGS LD_LIBRARY_PATH LD_PRELOAD CMAKE_PREFIX_PATH CMAKE_GENERATOR MAKEFLAGS
options=()
[ "$generator" = default ] || options=(-G "$generator")
passed=0 failed=0

# runs COMMAND...: checks that it exits with 0.
runs() {
    if "$@" >log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*"
        tail -n 40 log
    fi
}

runs cmake -S "$sources" -B out "${options[@]}" -DKEEL_TESTS=OFF
runs cmake --build out -j4
runs cmake --install out --prefix "$work/prefix" --component libraries
for library in keel.o libkeel.a; do
    runs "${CC:-cc}" -I prefix/include "$sources/samples/linking/malloc.c" "prefix/lib/$library" \
        -pthread -o "malloc-$library"
    runs "./malloc-$library"
done
runs "${CC:-cc}" -I prefix/include "$sources/samples/linking/malloc.c" -L prefix/lib -lkeel \
    -Wl,-rpath,"$work/prefix/lib" -o malloc-shared
runs ./malloc-shared

runs cmake -S "$sources" -B b "${options[@]}"
runs cmake --build b -j4 --target libraries keel_amalgamated sizes-shared sizes-static
for program in sizes-shared sizes-static; do runs "b/tests/$program" blocks_of_every_size; done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
