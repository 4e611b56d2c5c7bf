# For runners of real programs: what a program's file says it wants, in lines `# needs: COMMAND ...`; a file will do as
# well. `# sources: PATTERN ...` names files below $KEEL_SOURCES, where the sources of Debian's packages lie unpacked; a
# program with that line is optional.

missing() { # missing KIND FILE: the first of the wanted commands that is not there
    local wanted
    for wanted in $(sed -n "s/^# $1: //p" "$2"); do
        command -v "$wanted" >/dev/null || [ -f "$wanted" ] || { echo "$wanted"; return; }
    done
    [ "$1" = optional ] || return 0
    while read -r wanted; do
        compgen -G "${KEEL_SOURCES:-/nowhere}/$wanted" >/dev/null || { echo "\$KEEL_SOURCES/$wanted"; return; }
    done < <(sed -n 's/^# sources: //p' "$2" | tr ' ' '\n')
}
