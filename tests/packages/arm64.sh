#!/usr/bin/env bash
# arm64.sh [FOLDER]: tests the archive for arm64 of FOLDER (build/packages-arm64), in a namespace of
# its own, whose kernel starts arm64 programs with an emulator: programs with the library, and the
# lab.
KEEL_MACHINE=aarch64
source "$(dirname "$0")/steps.sh" "${1:-$(dirname "$0")/../../build/packages-arm64}"
archive=$out/keel-$VERSION-linux-aarch64.tar.xz
prefix=$work/keel-$VERSION-linux-aarch64
gnu=aarch64-linux-gnu
cd "$work" || exit 1

run() { # run COMMAND...: it and the programs that it starts may be arm64 ones
    QEMU_LD_PREFIX=/usr/$gnu unshare --user --map-root-user --mount bash -ec '
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
        magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
        printf %s ":arm64:M::$magic:$mask:$0:F" >/proc/sys/fs/binfmt_misc/register
        exec "$@"' "$(command -v qemu-aarch64-static)" "$@"
}
unpacked() { [ "$(stat -c %s "$archive")" -le 40000000 ] && tar -xJf "$archive"; }
verified() { "$root/packaging/verify.py" "$prefix"; }
all_arm64() { # every program and library, and none is missing that the other archive has
    local files name
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
        run env LD_PRELOAD="$prefix/lib/libkeel.so" KEEL_SHOW_STATS=1 ./plain 2>&1 | grep -i keel
}
reads() { # the supplied recording
    run "$prefix/bin/keel" --version | grep "$VERSION" &&
        run "$prefix/bin/keel" info --verify "$root/samples/minetest-slice.journal.parquet"
}
records() { # every request, and where it was made
    cat >blocks.c <<'C' && "$gnu-gcc" -O0 blocks.c -o blocks &&
#include <stdlib.h>
int main(void) {
    void* blocks[1000];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1000; i++) blocks[i] = malloc(i * 7 + 1);
        for (int i = 0; i < 1000; i++) free(blocks[i]);
    }
}
C
        run "$prefix/bin/keel" record --stacks 16 -o blocks.journal.parquet -- ./blocks &&
        run "$prefix/bin/keel" info --verify blocks.journal.parquet &&
        run "$prefix/bin/keel" blame blocks.journal.parquet | grep ' 20,000 .* main$'
}
compares() {
    run "$prefix/bin/keel" compare blocks.journal.parquet -a keel,glibc -r 1 -o results &&
        run "$prefix/bin/keel" report results -o report.html && test -s report.html
}
peers() {
    run "$prefix/bin/keel" allocators >list && cat list &&
        ! grep -v tcmalloc list | grep 'not available'
}
player() { run "$prefix/lib/keel/keel-player" --self-test | grep 'clock counter'; }

step "unpack; at most 40 MB" unpacked
step "glibc, libraries, paths" verified
step "all of it is for arm64" all_arm64
step "programs link with it" links
step "preload" preloads
step "keel reads a journal" reads
step "the player's clock" player
step "keel records" records
step "keel compares and reports" compares
step "every peer loads" peers
finish "Archive for arm64" "$archive" "tar, qemu"
