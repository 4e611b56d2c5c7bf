#!/usr/bin/env bash
# Compiles and links libkeel.so and libkeel_api.so for DragonFly on x86-64 with clang 19 and the
# headers of DragonFly's sources. Every warning is an error. The libraries that they are linked with
# are empty: they have the names in the lists from which DragonFly makes its own, so that any other
# function is an error. Nothing is run.
#
#     tests/dragonfly.sh SOURCES   # a checkout of https://github.com/DragonFlyBSD/DragonFlyBSD
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/support/linked.sh
sources=$(realpath -- "${1:?a checkout of the sources of DragonFly}")
flags="--target=x86_64-unknown-dragonfly -fuse-ld=lld-19 -nostdlib"

stub() { # stub LIST...: assembly that defines the public names. errno is thread-local
    cat "$@" | awk '/^[A-Za-z].*\{/ { private = /private/ } /local:/ { private = 1 }
        !private && /^[ \t]+[A-Za-z_][A-Za-z0-9_]*;/ { gsub(/[ \t;].*$/, "", $1); print $1 }' |
        tr -d ';' | sort -u | awk '$1 != "errno" { print ".globl " $1 "\n" $1 ": .quad 0" }'
    printf '.section .tbss,"awT",@nobits\n.globl errno\nerrno: .long 0\n'
}

built() {
    local build=$PWD/build/dragonfly-$1 header
    rm -rf "$build-stubs" && mkdir -p "$build-stubs/include/machine" || return 1
    # Where DragonFly installs them.
    ln -s "$sources"/sys/{cpu/x86_64,platform/pc64}/include/* "$build-stubs/include/machine"
    ln -s "$sources/sys/cpu/x86_64/include" "$build-stubs/include/cpu"
    for header in errno fcntl poll sched; do
        ln -s "$sources/sys/sys/$header.h" "$build-stubs/include"
    done
    stub "$sources"/lib/libc/*/Symbol.map >"$build-stubs/c.s" &&
        stub "$sources/lib/libthread_xu/pthread.map" | sed /errno/d >"$build-stubs/pthread.s" &&
        clang-19 $flags -shared -Wl,-soname,libc.so.8 "$build-stubs/c.s" \
            -o "$build-stubs/libc.so" &&
        clang-19 $flags -shared -Wl,-soname,libpthread.so.0 "$build-stubs/pthread.s" \
            -o "$build-stubs/libpthread.so" || return 1
    cmake -S . -B "$build" -G Ninja -DKEEL_TESTS=OFF -DCMAKE_SYSTEM_NAME=DragonFly \
        -DCMAKE_SYSTEM_PROCESSOR=x86_64 -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER= \
        -DCMAKE_C_COMPILER_TARGET=x86_64-unknown-dragonfly -DCMAKE_LINKER=/usr/bin/ld.lld-19 \
        -DCMAKE_OBJCOPY=/usr/bin/llvm-objcopy-19 -DCMAKE_C_FLAGS="-nostdlibinc -isystem \
$sources/include -isystem $sources/sys -isystem $build-stubs/include" \
        -D{CMAKE_SHARED_LINKER_FLAGS,CMAKE_EXE_LINKER_FLAGS}="-fuse-ld=lld-19 -nostdlib \
-L$build-stubs -lc -lpthread -Wl,--no-undefined -Wl,--entry=main" && cmake --build "$build"
}
linked_for dragonfly libkeel.so x86_64
