#!/usr/bin/env bash
# Git's own tests: git.sh SOURCES PLACE. The source must be built with `make NO_GETTEXT=1`; it is
# copied and not changed. A script of its folder t is one test here; the result of each of its
# cases is compared.
#
# Left out are the scripts that need a web server, Subversion, CVS, Perforce or a display, which
# git's own runner skips without them, and the tests of speed.
set -uo pipefail
sources=$1 place=$2
[ -f "$sources/t/test-lib.sh" ] || { echo "no source of git at '$sources'"; exit 1; }
[ -x "$sources/git" ] || { echo "'$sources' is not built: run 'make NO_GETTEXT=1' there"; exit 1; }
cp -r "$sources" "$place/source" || exit 1
for file in "$place"/source/t/t[0-9]*.sh; do
    name=$(basename "$file" .sh)
    left_out=$(case $name in
        t5[57]??-http*) echo 'http' ;;
        t91??-git-svn*) echo 'git-svn' ;;
        t9[46]??-*) echo 'git-cvs' ;;
        t98??-git-p4*) echo 'git-p4' ;;
    esac)
    if [ -n "$left_out" ]; then
        grep -qsx "$left_out" "$place/left-out" || echo "$left_out" >>"$place/left-out"
        continue
    fi
    # With its check of malloc, git preloads a debugging library of the C library instead.
    cat >"$place/tests/$name" <<TEST
#!/bin/bash
results=\$PWD
cd "$place/source/t" || exit 1
unset MAKEFLAGS MAKELEVEL
TEST_NO_MALLOC_CHECK=1 TEST_OUTPUT_DIRECTORY="\$results" GIT_TEST_INSTALLED= \\
    bash ./$name.sh >"\$results/log" 2>&1
status=\$?
sed -n 's/^\(\(not \)\{0,1\}ok [0-9]*\).*/verdict: \1/p' "\$results/log"
grep -A 5 '^not ok' "\$results/log" | tail -n 20 >&2
exit \$status
TEST
    chmod +x "$place/tests/$name"
done
