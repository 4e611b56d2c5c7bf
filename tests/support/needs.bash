# For runners of real programs: what a program's file says it wants, in lines `# needs: COMMAND ...`; a file will do as well.

missing() { # missing KIND FILE: the first of the wanted commands that is not there
    local command
    for command in $(sed -n "s/^# $1: //p" "$2"); do
        command -v "$command" >/dev/null || [ -f "$command" ] || { echo "$command"; return; }
    done
}
