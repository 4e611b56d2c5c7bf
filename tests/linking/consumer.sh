#!/usr/bin/env bash
# consumer.sh WAY SAMPLES ROOT: builds the programs of samples/linking that link Keel in this WAY
# and runs them. They are built from a copy in an empty folder, with only the files that install.sh
# has put into ROOT/prefix. Each program exits with 0 only if its memory is Keel's.
set -uo pipefail
# shellcheck source=tests/linking/runs.sh
source "$(dirname "$0")/runs.sh"
here=$(cd "$(dirname "$0")" && pwd)
way=$1 samples=$2 root=$3
prefix=$root/prefix
work=$root/$way
rm -rf "$work"
cp -r "$samples" "$work"
cd "$work" || exit 1
unset CFLAGS CXXFLAGS LDFLAGS LD_LIBRARY_PATH LD_PRELOAD CMAKE_PREFIX_PATH

# uses PROGRAM LIBRARY: checks that the program loads this shared library by its soname from the
# prefix, or no library of Keel if LIBRARY is `none`.
uses() {
    local found
    found=$(ldd "$1" 2>/dev/null | awk '/keel/ { print $1, $3 }')
    case $2 in
        none) [ -z "$found" ] ;;
        *)
            [ "$found" = "$2.0 $(realpath "$prefix")/lib/$2.0" ] ||
                [ "${found#* }" -ef "$prefix/lib/$2.0" ]
            ;;
    esac
}

case $way in
    cmake)
        runs cmake -S cmake -B build -DCMAKE_PREFIX_PATH="$prefix"
        runs cmake --build build -j4
        for program in keel keel-static keel-object keel-api keel-api-static; do
            runs "build/$program"
        done
        for program in keel-record keel-record-static; do
            runs "build/$program" "$program.spool"
        done
        runs uses build/keel libkeel.so
        runs uses build/keel-api libkeel_api.so
        for program in keel-static keel-object keel-api-static keel-record-static; do
            runs uses "build/$program" none
        done
        ;;
    cmake-version) # the version file rejects requests for other minor or major versions
        cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(version LANGUAGES C)
find_package(keel ${WANTED} REQUIRED)
CMAKE
        runs cmake -S . -B now -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.1
        for wanted in 0.2 1.0; do
            runs eval "! cmake -S . -B not-$wanted -DCMAKE_PREFIX_PATH='$prefix' -DWANTED=$wanted"
        done
        ;;
    pkg-config)
        export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
        runs make -C pkg-config
        for program in keel keel-static keel-api; do runs "pkg-config/$program"; done
        runs uses pkg-config/keel libkeel.so
        runs uses pkg-config/keel-static none
        runs uses pkg-config/keel-api libkeel_api.so
        ;;
    compiler)
        runs make -C compiler PREFIX="$prefix"
        for program in object static all-static; do runs "compiler/$program"; done
        runs compiler/late "$prefix/lib/libkeel_api.so"
        runs compiler/late "$prefix/lib/libkeel.so"
        runs env LD_PRELOAD="$prefix/lib/libkeel.so" compiler/late "$prefix/lib/libkeel_api.so"
        runs env LD_PRELOAD="$prefix/lib/libkeel.so" compiler/preloaded
        runs eval '! compiler/preloaded' # without Keel it must fail
        ;;
    cxx)
        runs cmake -S cxx -B build -DCMAKE_PREFIX_PATH="$prefix"
        runs cmake --build build -j4
        for program in containers everything; do runs "build/$program"; done
        ;;
    override)
        runs make -C override PREFIX="$prefix"
        runs override/program
        ;;
    sanitizers) # the sanitizers check the program, and Keel works beside them
        for sanitizer in address,undefined thread; do
            for library in libkeel_api.a libkeel_api.so libkeel.so; do
                runs "${CC:-cc}" -g -fsanitize=$sanitizer -I "$prefix/include" beside.c \
                    "$prefix/lib/$library" -pthread \
                    -Wl,-rpath,"$(realpath "$prefix")/lib" -o "beside-$library"
                runs "./beside-$library"
            done
        done
        if command -v valgrind >/dev/null; then
            runs "${CC:-cc}" -g -I "$prefix/include" beside.c "$prefix/lib/libkeel_api.a" -pthread \
                -o beside
            runs valgrind -q --error-exitcode=9 ./beside
        fi
        ;;
    subdirectory) # needs Keel's sources instead of the prefix
        for generator in "Unix Makefiles" Ninja; do
            runs cmake -S subdirectory -B "$generator" -G "$generator" \
                -DKEEL_SOURCE="$(dirname "$samples")/.."
            runs cmake --build "$generator" -j4
            for program in with-keel with-keel-static; do runs "$generator/$program"; done
        done
        ;;
    mimalloc)
        runs make -C mimalloc PREFIX="$prefix"
        for program in c cxx symbols symbols-shared; do runs "mimalloc/$program"; done
        runs uses mimalloc/symbols none
        runs uses mimalloc/symbols-shared libkeel.so
        ;;
    mimalloc-package) # find_package(mimalloc) finds Keel only if mimalloc_DIR names it
        package=$prefix/lib/cmake/keel/mimalloc
        for wanted in "" 1.6 2.0 3; do
            runs cmake -S mimalloc -B "build$wanted" -Dmimalloc_DIR="$package" -DWANTED="$wanted"
        done
        runs eval "! cmake -S mimalloc -B newer -Dmimalloc_DIR='$package' -DWANTED=4"
        runs eval "! cmake -S mimalloc -B unnamed -DCMAKE_PREFIX_PATH='$prefix' \
            -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF"
        runs cmake --build build -j4
        for program in {mimalloc,mimalloc-static}-{c,cxx,symbols}; do runs "build/$program"; done
        runs uses build/mimalloc-symbols libkeel.so
        runs uses build/mimalloc-static-symbols none
        ;;
    amalgamation) # the two files are written into the empty folder; the prefix is compared with it
        rm -rf compiler cmake
        runs python3 "$(dirname "$samples")/../scripts/amalgamate.py" amalgamation
        for cc in gcc clang; do
            command -v "$cc" >/dev/null || continue
            runs make -C amalgamation CC="$cc"
            for program in beside everything; do runs "amalgamation/$program"; done
            runs make -C amalgamation clean
            for override in 0 1; do
                runs "$cc" -w -fvisibility=hidden -DKEEL_OVERRIDE=$override \
                    -c amalgamation/keel.c -o keel$override.o
            done
            runs "$here/bundled.py" "$prefix/lib/libkeel_api.so" keel0.o
            runs "$here/bundled.py" "$prefix/lib/libkeel.so" keel1.o
            [ "$(uname -m)" = x86_64 ] || continue # a target of 32 bits without further packages
            runs eval "! $cc -m32 -fsyntax-only amalgamation/keel.c 2>narrow"
            runs grep "Keel needs a target with addresses of 64 bits" narrow
        done
        ;;
    *) echo "unknown way: $way"; exit 2 ;;
esac
finish
