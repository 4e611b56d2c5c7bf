#!/usr/bin/env bash
# Builds the tests of the Linux Test Project that concern malloc: ltp.sh SOURCES PLACE. The source
# must be configured; it is copied and not changed.
set -uo pipefail
sources=$1 place=$2
[ -f "$sources/testcases/kernel/mem/mtest07/mallocstress.c" ] ||
    { echo "no source of the Linux Test Project at '$sources'"; exit 1; }
[ -f "$sources/include/config.h" ] ||
    { echo "'$sources' is not configured: run 'make autotools && ./configure' there"; exit 1; }
cp -r "$sources" "$place/source"
make -C "$place/source/lib" -j "${JOBS:-1}" || exit 1

build() { # build FOLDER TEST [ARGUMENTS]
    local name=$2
    make -C "$place/source/testcases/kernel/$1" "$name" ||
        { echo "$name" >>"$place/left-out"; return; }
    # The number of each result of the test is its verdict, besides its status.
    cat >"$place/tests/$name" <<TEST
#!/bin/bash
export LTP_TIMEOUT_MUL=5
"$place/source/testcases/kernel/$1/$name" ${*:3} >log 2>&1
status=\$?
cat log
grep -oE '\b(TPASS|TFAIL|TBROK|TCONF)\b' log | sort | uniq -c | sed 's/^/verdict: /'
exit \$status
TEST
    chmod +x "$place/tests/$name"
}
for name in mallinfo01 mallinfo02; do build syscalls/mallinfo "$name"; done
build syscalls/mallinfo2 mallinfo2_01
build syscalls/mallopt mallopt01
for name in brk01 brk02; do build syscalls/brk "$name"; done
for name in sbrk01 sbrk02 sbrk03; do build syscalls/sbrk "$name"; done
build mem/mtest01 mtest01 -p 10
build mem/mtest07 mallocstress
