# Sourced by the programs: `source "$SUPPORT"`.

# under_keel PID: ends the script when it should run with Keel preloaded and that process has not loaded it.
under_keel() {
    if [ -n "${UNDER_KEEL:-}" ] && ! grep -qF "$UNDER_KEEL" "/proc/$1/maps"; then
        echo "process $1 has not loaded $UNDER_KEEL" >&2
        exit 1
    fi
}

# words COUNT SEED: that many lines of words and numbers, the same for the same seed.
words() {
    awk -v n="$1" -v seed="$2" 'BEGIN {
        x = seed
        for (i = 0; i < n; i++) {
            x = (x * 1103515245 + 12345) % 2147483648
            printf "%d %s-%d line %d of the text\n", x, substr("alphabetagammadeltaepsilonzeta", x % 23 + 1, 7), x % 977, i
        }
    }'
}

under_keel $$
