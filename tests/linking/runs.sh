# Sourced by the scripts of this folder: counts the checks that passed and failed.
passed=0 failed=0

# runs COMMAND...: checks that it exits with 0.
runs() {
    if "$@" >log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*"
        cat log
    fi
}

# Prints the counts and ends the script.
finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    exit $((failed > 0))
}
