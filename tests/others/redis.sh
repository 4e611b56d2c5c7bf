#!/usr/bin/env bash
# Redis's own tests of its commands, each file in a server of its own: redis.sh SOURCES PLACE. The
# source must be built with `make MALLOC=libc`; it is copied and not changed. Needs tclsh.
set -uo pipefail
sources=$1 place=$2
[ -f "$sources/tests/test_helper.tcl" ] || { echo "no source of redis at '$sources'"; exit 1; }
[ -x "$sources/src/redis-server" ] ||
    { echo "'$sources' is not built: run 'make MALLOC=libc' there"; exit 1; }
! grep -q ' je_malloc$' <(nm "$sources/src/redis-server") ||
    { echo "'$sources' is built with jemalloc: build it with 'make MALLOC=libc'"; exit 1; }
command -v tclsh >/dev/null || { echo "tclsh is not installed"; exit 1; }
mkdir -p "$place/source/src"
cp -r "$sources"/{tests,runtest,redis.conf,sentinel.conf} "$place/source" || exit 1
cp "$sources"/src/redis-{server,cli,benchmark,sentinel,check-aof,check-rdb} "$place/source/src"
for file in "$place"/source/tests/unit/*.tcl "$place"/source/tests/unit/type/*.tcl \
    "$place"/source/tests/integration/{rdb,aof,convert-ziplist-hash-on-load,redis-cli}.tcl; do
    name=${file#"$place/source/tests/"}
    name=${name%.tcl}
    case $name in
        unit/memefficiency | unit/oom-score-adj | unit/tls | unit/limits)
            # jemalloc's defragmentation, the kernel's settings, and TLS
            basename "$name" >>"$place/left-out"
            continue ;;
    esac
    cat >"$place/tests/$(basename "$name")" <<TEST
#!/bin/bash
log=\$PWD/log
cd "$place/source" || exit 1
TMPDIR=/tmp timeout -k 5 240 ./runtest --clients 1 --single $name --tags -slow \\
    --baseport 31111 >"\$log" 2>&1
status=\$?
sed -n 's/\x1b\[[0-9;]*m//g; s/^\(\[[a-z]*\]: .*\)/\1/p' "\$log" | sed 's/ ([0-9]* ms)$//' |
    grep -E '^\[(ok|err|exception|ignore|skip)\]' | sed 's/^/verdict: /'
tail -n 5 "\$log" >&2
exit \$status
TEST
    chmod +x "$place/tests/$(basename "$name")"
done
