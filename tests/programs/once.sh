#!/usr/bin/env bash
# Runs one program of tests/programs once, in an empty folder, and oversees it.
#
#     once.sh prepare TOOLS FILE PLACE                                  makes PLACE/input
#     once.sh run TOOLS FILE PLACE VARIANT [COMMAND ...]                leaves PLACE/VARIANT/{out,err,report.json,work}
#
# FILE is the program's; what stands above its line `# work:` prepares the input, without a library preloaded and outside
# of what is measured; with no such line there is nothing to prepare. The rest is run by COMMAND, such as `env
# LD_PRELOAD=...` or `keel record ... --`. TOOLS is the folder of the built test programs.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
way=$1 tools=$(realpath "$2") file=$(realpath "$3") place=$4
shift 4
seconds=600

# script FILE WAY: the part of the program that prepares, or the one that works.
script() {
    if ! grep -q '^# work:$' "$1"; then
        [ "$2" = prepare ] || cat "$1"
    elif [ "$2" = prepare ]; then
        sed '/^# work:$/,$d' "$1"
    else
        sed '1,/^# work:$/d' "$1"
    fi
}

# in_folder FOLDER COMMAND...: with an environment that does not depend on who runs it.
in_folder() {
    local folder=$1
    shift
    (cd "$folder" && exec env -u CI -u DISPLAY -u WAYLAND_DISPLAY -u DBUS_SESSION_BUS_ADDRESS -u XDG_RUNTIME_DIR \
        HOME="$folder" TMPDIR="$folder" LC_ALL=C.UTF-8 TZ=UTC PATH="$PATH:/usr/sbin:/usr/games" STRESS="$tools/stress" \
        SUPPORT="$(dirname "$file" | sed 's|/large$||')/support.bash" "$@")
}

mkdir -p "$place"
place=$(realpath "$place")
if [ "$way" = prepare ]; then
    mkdir "$place/input"
    script "$file" prepare >"$place/prepare.sh"
    in_folder "$place/input" timeout "$seconds" bash -euo pipefail "$place/prepare.sh"
else
    at=$place/$1
    shift
    rm -rf "$at"
    mkdir "$at"
    cp -a "$place/input" "$at/work"
    script "$file" run >"$at/run.sh" # its own: another variant may be running
    in_folder "$at/work" "$tools/overseer" "$at/report.json" "$seconds" "$@" bash -euo pipefail "$at/run.sh" \
        >"$at/out" 2>"$at/err" </dev/null
fi
