#!/usr/bin/env bash
# Builds the tests of the GNU C library's malloc against the installed C library: glibc.sh SOURCES
# PLACE. Their support library is built from the same source.
#
# Left out are tests that need the built tree or internal headers, tests of static programs, and
# tests of the library's own debugging aids (MALLOC_CHECK_, mtrace), which are not malloc's.
set -uo pipefail
sources=$1 place=$2
[ -f "$sources/malloc/tst-malloc.c" ] || { echo "no source of glibc at '$sources'"; exit 1; }
mkdir -p "$place/headers" "$place/last" "$place/support"
# A quoted include finds its neighbours; the installed headers come before those of the source.
ln -s "$sources/support" "$sources/malloc" "$place/headers"
: >"$place/last/config.h"
cp "$sources"/sysdeps/generic/malloc-{size,alignment}.h "$place/last"
flags=(-w -std=gnu11 -O1 -fno-builtin -D_GNU_SOURCE -D_ISOMAC -DMODULE_NAME=testsuite
    -DTIMEOUTFACTOR=10 -include limits.h)
for path in SRCDIR OBJDIR OBJDIR_ELF_LDSO INSTDIR LIBDIR SLIBDIR BINDIR SBINDIR ROOTSBINDIR \
    COMPLOCALEDIR SYSCONFDIR; do
    flags+=("-D${path}_PATH=\"$place\"")
done
flags+=(-iquote "$sources" -I "$place/headers" -idirafter "$sources/support"
    -idirafter "$sources/include" -idirafter "$place/last")
compile() { "${CC:-cc}" "${flags[@]}" "$@"; }

for file in "$sources"/support/*.c; do # those that need more are not needed here
    compile -c "$file" -o "$place/support/$(basename "$file" .c).o" 2>/dev/null
done
ar rcs "$place/libsupport.a" "$place"/support/*.o || exit 1

for file in "$sources"/malloc/tst-*.c "$sources/malloc/mallocbug.c"; do
    name=$(basename "$file" .c)
    extra=()
    case $name in
        tst-interpose-aux* | tst-interpose-skeleton) continue ;; # parts of other tests
        tst-interpose-static-* | tst-malloc-check | tst-malloc-usable | \
            tst-malloc-usable-tunables | tst-mtrace) echo "$name" >>"$place/left-out"; continue ;;
        tst-interpose-*) extra=("$sources/malloc/tst-interpose-aux-${name##*-}.c") ;;
    esac
    compile "$file" "${extra[@]}" "$place/libsupport.a" -o "$place/tests/$name" -lpthread -lm \
        2>/dev/null || echo "$name" >>"$place/left-out"
done
if [ -x "$place/tests/tst-mxfast" ]; then # takes its setting from the environment
    mv "$place/tests/tst-mxfast" "$place/tst-mxfast"
    printf '#!/bin/sh\nGLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0 exec %s\n' \
        "$place/tst-mxfast" >"$place/tests/tst-mxfast"
    chmod +x "$place/tests/tst-mxfast"
fi
