#!/usr/bin/env bash
# arm64.sh [FOLDER]: tests the archive for arm64 of FOLDER (build/packages-arm64), under the
# emulator of tests/emulated.sh, which cannot record: programs with the library, and those of the
# lab.
KEEL_MACHINE=aarch64
source "$(dirname "$0")/steps.sh" "${1:-$(dirname "$0")/../../build/packages-arm64}"
archive=$out/keel-$VERSION-linux-aarch64.tar.xz
prefix=$work/keel-$VERSION-linux-aarch64
gnu=aarch64-linux-gnu
cd "$work" || exit 1

run() { qemu-aarch64-static -L "/usr/$gnu" "$@"; }
unpacked() { [ "$(stat -c %s "$archive")" -le 40000000 ] && tar -xJf "$archive"; }
verified() { "$root/packaging/verify.py" "$prefix"; }
all_arm64() { # every program and library, and none is missing that the other archive has
    local files
    mapfile -t files < <(find "$prefix" -type f \( -name '*.so*' -o -path '*/bin/*' \
        -o -path '*/lib/keel/keel-*' \))
    [ "$(file "${files[@]}" | grep -c 'ELF 64-bit.*ARM aarch64')" = ${#files[@]} ] &&
        for name in dlmalloc jemalloc mimalloc mimalloc2 rpmalloc snmalloc tlsf; do
            [ -e "$prefix/lib/keel/peers/$name.so" ] || return 1
        done
}
links() {
    for library in -lkeel -lkeel-secure -lkeel-debug -l:libkeel.a; do
        "$gnu-gcc" "$root/samples/linking/malloc.c" -I "$prefix/include" -L "$prefix/lib" $library \
            -pthread -ldl -Wl,-rpath,"$prefix/lib" -o linked && run ./linked || return 1
    done
}
preloads() { # a program that does not know of it
    printf '%s\n' '#include <stdlib.h>' 'int main(void) { free(malloc(9)); }' >plain.c &&
        "$gnu-gcc" -O0 plain.c -o plain &&
        run -E LD_PRELOAD="$prefix/lib/libkeel.so" -E KEEL_SHOW_STATS=1 ./plain 2>&1 | grep -i keel
}
reads() { # the supplied recording
    run "$prefix/bin/keel" --version | grep "$VERSION" &&
        run "$prefix/bin/keel" info --verify "$root/samples/minetest-slice.journal.parquet"
}
player() { run "$prefix/lib/keel/keel-player" --self-test | grep 'clock counter'; }

step "unpack; at most 40 MB" unpacked
step "glibc, libraries, paths" verified
step "all of it is for arm64" all_arm64
step "programs link with it" links
step "preload" preloads
step "keel reads a journal" reads
step "the player's clock" player
finish "Archive for arm64" "$archive" "tar, qemu"
