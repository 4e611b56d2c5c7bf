# For scripts that run real programs: reads the requirements of a program from its file. A line
# `# needs: COMMAND ...` lists commands or files. A line `# sources: PATTERN ...` lists files below
# $KEEL_SOURCES, where the sources of Debian's packages are unpacked; a program with that line is
# optional.

missing() { # missing KIND FILE: prints the first required command that is missing
    local wanted
    for wanted in $(sed -n "s/^# $1: //p" "$2"); do
        command -v "$wanted" >/dev/null || [ -f "$wanted" ] || { echo "$wanted"; return; }
    done
    [ "$1" = optional ] || return 0
    while read -r wanted; do
        compgen -G "${KEEL_SOURCES:-/nowhere}/$wanted" >/dev/null ||
            { echo "\$KEEL_SOURCES/$wanted"; return; }
    done < <(sed -n 's/^# sources: //p' "$2" | tr ' ' '\n')
}
