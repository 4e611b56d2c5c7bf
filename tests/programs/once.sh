#!/usr/bin/env bash
# Runs one program of tests/programs once, in an empty folder, under the overseer.
#
#     once.sh prepare TOOLS FILE PLACE                     creates PLACE/input
#     once.sh run TOOLS FILE PLACE VARIANT [COMMAND ...] creates
#     PLACE/VARIANT/{out,err,report.json,work}
#
# FILE is the program's file. The part above its line `# work:` prepares the input, without a
# preloaded library and without being measured; without that line there is nothing to prepare.
# COMMAND, such as `env LD_PRELOAD=...` or `keel record ... --`, runs the rest. TOOLS is the folder
# of the built test programs. KEEL_OVERSEER_OPTIONS are options of the overseer, such as --calls.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
way=$1 tools=$(realpath "$2") file=$(realpath "$3") place=$4
shift 4
seconds=${KEEL_LIMIT_SECONDS:-600}

# script FILE WAY: prints the part of the program that prepares the input, or the part that works.
script() {
    if ! grep -q '^# work:$' "$1"; then
        [ "$2" = prepare ] || cat "$1"
    elif [ "$2" = prepare ]; then
        sed '/^# work:$/,$d' "$1"
    else
        sed '1,/^# work:$/d' "$1"
    fi
}

# in_folder FOLDER COMMAND...: runs it there, with an environment that does not depend on the user.
in_folder() {
    local folder=$1
    shift
    (cd "$folder" && exec env -u CI -u DISPLAY -u WAYLAND_DISPLAY -u DBUS_SESSION_BUS_ADDRESS \
        -u XDG_RUNTIME_DIR HOME="$folder" TMPDIR="$folder" LC_ALL=C.UTF-8 TZ=UTC \
        PATH="$PATH:/usr/sbin:/usr/games" STRESS="$tools/stress" \
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
    script "$file" run >"$at/run.sh" # a copy for each variant: another one may be running
    # shellcheck disable=SC2086 # options are words
    in_folder "$at/work" "$tools/overseer" ${KEEL_OVERSEER_OPTIONS:-} "$at/report.json" "$seconds" "$@" \
        bash -euo pipefail "$at/run.sh" >"$at/out" 2>"$at/err" </dev/null
fi
