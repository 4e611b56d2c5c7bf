#!/usr/bin/env bash
# flavours.sh SOURCES WORK: builds and installs the secure and the debug flavour into one prefix,
# and programs that find them with CMake and with pkg-config. A request for both in one library
# fails with an error that names them, with CMake and with the compiler.
set -uo pipefail
# shellcheck source=tests/linking/runs.sh
source "$(dirname "$0")/runs.sh"
sources=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
python3 "$sources/scripts/amalgamate.py" single || exit 1

refuses() { # refuses COMMAND...: checks that it fails with the documented error
    if ! "$@" >log 2>&1 && tr -s '\n ' ' ' <log |
        grep "KEEL_DEBUG and KEEL_SECURE are two flavours" >/dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*"
        cat log
    fi
}

refuses cmake -S "$sources" -B build -DKEEL_DEBUG=ON -DKEEL_SECURE=ON
refuses "${CC:-cc}" -fsyntax-only -DKEEL_DEBUG=1 -DKEEL_SECURE=1 single/keel.c

# A program with a malloc of its own, whose blocks delete passes on to it.
runs "${CC:-cc}" -O1 -fno-builtin -rdynamic "$sources"/tests/linking/own_{malloc,heap}.c \
    -o own-malloc

for flavour in secure debug; do
    option=KEEL_${flavour^^}
    runs "${CC:-cc}" -w -fvisibility=hidden -D$option=1 -DKEEL_OVERRIDE=1 -c single/keel.c \
        -o $flavour.o
    runs cmake -S "$sources" -B $flavour -D$option=ON -DKEEL_TESTS=OFF -DCMAKE_BUILD_TYPE=Release
    runs cmake --build $flavour -j2 --target flavour
    runs cmake --install $flavour --prefix "$PWD/prefix" --component libraries
    runs env LD_PRELOAD="$PWD/prefix/lib/libkeel-$flavour.so" ./own-malloc
    # The archive: the shared library has checked copies, too.
    runs "$sources/tests/linking/bundled.py" prefix/lib/libkeel-$flavour.a $flavour.o
done

# Ends with 0 if a second free of a small block ends its child.
cat >misuse.c <<'PROGRAM'
#include <keel/keel.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        void* block = kl_malloc(100);
        kl_free(block);
        kl_free(block);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
               ? 0 : 1;
}
PROGRAM
mkdir consumer
cat >consumer/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(consumer LANGUAGES C)
find_package(keel 0.1 REQUIRED COMPONENTS secure debug)
foreach(flavour secure debug)
  foreach(way keel-${flavour} keel-${flavour}-static keel-${flavour}-object keel-api-${flavour}
      keel-api-${flavour}-static)
    add_executable(${way} ../misuse.c)
    target_link_libraries(${way} PRIVATE keel::${way})
  endforeach()
endforeach()
find_package(keel 0.1 COMPONENTS plain)
if(keel_FOUND)
  message(FATAL_ERROR "the component `plain` is found, but it is not installed")
endif()
CMAKE
runs cmake -S consumer -B built -DCMAKE_PREFIX_PATH="$PWD/prefix"
runs cmake --build built
export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig
for flavour in secure debug; do
    for way in keel-$flavour keel-$flavour-static keel-$flavour-object keel-api-$flavour \
        keel-api-$flavour-static; do
        runs "built/$way"
    done
    for package in keel-$flavour keel-$flavour-static keel-api-$flavour; do
        # shellcheck disable=SC2046
        runs "${CC:-cc}" -o by-package misuse.c $(pkg-config --cflags --libs "$package")
        runs env LD_LIBRARY_PATH="$PWD/prefix/lib" ./by-package
    done
done
finish
