#!/usr/bin/env bash
# The tests of the libraries of NetSurf, a browser: strings, parsing, CSS and HTML: netsurf.sh
# SOURCES PLACE, the source with all libraries (netsurf-all). It is copied and not changed. Each
# library's tests are one test here; the result of each is compared. Needs pkg-config, perl, gperf
# and the packages check and libjson-c-dev. A library whose tests cannot be built is left out.
set -uo pipefail
sources=$1 place=$2
[ -d "$sources/libcss" ] && [ -d "$sources/buildsystem" ] ||
    { echo "no source of NetSurf with its libraries at '$sources'"; exit 1; }
cp -r "$sources" "$place/source" || exit 1
export PREFIX=$place/root NSSHARED=$place/source/buildsystem
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
# Newer versions of json-c do not have this function.
echo '#define is_error(object) ((object) == 0)' >"$place/added.h"
export CFLAGS="-w -O1 -include $place/added.h"
for library in libwapcaplet libparserutils libhubbub libcss; do
    folder=$place/source/$library
    make -C "$folder" install WARNFLAGS= || { echo "$library cannot be built"; exit 1; }
    make -C "$folder" test WARNFLAGS= || { echo "$library" >>"$place/left-out"; continue; }
    cat >"$place/tests/$library" <<TEST
#!/bin/bash
log=\$PWD/log
export PREFIX='$PREFIX' NSSHARED='$NSSHARED' PKG_CONFIG_PATH='$PKG_CONFIG_PATH' CFLAGS='$CFLAGS'
make -C "$folder" test WARNFLAGS= >"\$log" 2>&1
status=\$?
sed -nE 's/^ *==> (.*[^.])\.\.\.+(PASS|FAIL).*/verdict: \1 \2/p; s/^(100%: .*)/verdict: \1/p' \\
    "\$log"
tail -n 5 "\$log" >&2
exit \$status
TEST
    chmod +x "$place/tests/$library"
done
