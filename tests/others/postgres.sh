#!/usr/bin/env bash
# The regression tests of PostgreSQL (`make check`): postgres.sh SOURCES PLACE. The source must be
# configured and built (`./configure && make && make -C src/test/regress`). It is installed in
# PLACE. All of them are one test here, with a server of its own; the result of each is compared.
# The server refuses to run as root: then the user is nobody.
set -uo pipefail
sources=$1 place=$2
[ -f "$sources/src/test/regress/parallel_schedule" ] ||
    { echo "no source of PostgreSQL at '$sources'"; exit 1; }
[ -x "$sources/src/test/regress/pg_regress" ] && [ -x "$sources/src/backend/postgres" ] ||
    { echo "'$sources' is not built: run './configure && make && make -C src/test/regress'"
        exit 1; }
make -C "$sources" DESTDIR="$place/root" install || exit 1
cp -r "$sources/src/test/regress" "$place/regress" || exit 1
binaries=$(dirname "$(find "$place/root" -name initdb -type f | head -n 1)")
libraries=$(dirname "$(find "$place/root" -name 'libpq.so' | head -n 1)")
user=()
if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    chmod -R a+rX "$place"
fi
echo 600 >"$place/seconds"
cat >"$place/tests/check" <<TEST
#!/bin/bash
results=\$PWD
mkdir output
[ "\$(id -u)" != 0 ] || chown -R nobody "\$PWD" "$place/regress"
cd "$place/regress" || exit 1
PATH="$binaries:\$PATH" LD_LIBRARY_PATH="$libraries" ${user[*]} ./pg_regress \\
    --temp-instance="\$results/server" --inputdir=. --outputdir="\$results/output" \\
    --bindir="$binaries" --dlpath="$place/regress" --port=54987 --max-connections=4 \\
    --schedule=parallel_schedule \\
    >"\$results/shown" 2>&1
status=\$?
# Names and results, without times.
sed -nE 's/^(test| +) +([a-z0-9_]+) +\.\.\. +(ok|FAILED|failed).*/verdict: \2 \3/p' \\
    "\$results/shown"
tail -n 5 "\$results/shown" >&2
exit \$status
TEST
chmod +x "$place/tests/check"
