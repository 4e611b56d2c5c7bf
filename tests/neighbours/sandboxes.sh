#!/usr/bin/env bash
# Runs programs on Keel where a sandbox, another user or an empty environment limits them.
#
#     tests/neighbours/sandboxes.sh LIBRARY ... [-- NAME ...]
#
# LIBRARY is libkeel.so or another flavour. Everything happens in a copy of this machine's root that
# lives in memory, with mounts and processes of its own; so /etc/ld.so.preload can be written. Needs
# root. The names are those of sandbox_cases.sh; without names, all.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
libraries=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do libraries+=("$1"); shift; done
[ $# -eq 0 ] || shift
if [ ${#libraries[@]} -eq 0 ] || [ ! -f "${libraries[0]}" ]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2
fi
[ "$(id -u)" = 0 ] || { echo "sandboxes: only root can make the copy" >&2; exit 2; }
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
chmod 755 "$tools"
mkdir "$tools/mounts"
names=()
for library in "${libraries[@]}"; do
    cp -L "$library" "$tools/"
    names+=("$(basename "$library")")
done
chmod 755 "$tools"/*.so
cp "$folder/sandbox_cases.sh" "$folder/../support/programs.sh" "$tools"
"${CC:-cc}" -o "$tools/filter" "$folder/filter.c" || exit 2
"${CC:-cc}" -E -dM -include sys/syscall.h -x c /dev/null |
    sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\1 \2/p' >"$tools/calls"
KEEL_PLACE=$tools/mounts unshare --mount --pid --net --fork --kill-child --mount-proc \
    sh "$folder/../support/enter.sh" / "$tools" bash /keel/sandbox_cases.sh "${names[*]}" "$@"
