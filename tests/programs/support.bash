# Sourced by the programs: `source "$SUPPORT"`. PRELOADED is the library that the program should run with, if any.

# preloaded PID: fails the script if that process should have loaded the library but has not.
preloaded() {
    if [ -n "${PRELOADED:-}" ] && ! grep -qF "$PRELOADED" "/proc/$1/maps"; then
        echo "process $1 has not loaded $PRELOADED" >&2
        exit 1
    fi
}

# words COUNT SEED: prints COUNT lines of words and numbers, which depend only on the seed.
words() {
    awk -v n="$1" -v seed="$2" 'BEGIN {
        x = seed
        for (i = 0; i < n; i++) {
            x = (x * 1103515245 + 12345) % 2147483648
            printf "%d %s-%d line %d of the text\n", x, substr("alphabetagammadeltaepsilonzeta", x % 23 + 1, 7), x % 977, i
        }
    }'
}

# templates COUNT: prints a C++ program of COUNT classes that use the standard library.
templates() {
    local i
    printf '#include <algorithm>\n#include <iostream>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n#include <vector>\n'
    printf 'template <int N> struct Chain { static long sum(long x) { return Chain<N - 1>::sum(x * 31 + N); } };\n'
    printf 'template <> struct Chain<0> { static long sum(long x) { return x; } };\n'
    for i in $(seq 1 "$1"); do
        printf 'struct T%d { std::map<std::string, std::vector<long>> m; long v = %d;\n' "$i" "$i"
        printf '  long run() { for (int i = 0; i < 50; i++) m["k" + std::to_string(i %% %d)].push_back(i * v);\n' $((i % 13 + 2))
        printf '    long s = 0; for (auto& [k, l] : m) { std::sort(l.rbegin(), l.rend()); s += l.front() + (long)k.size(); }\n'
        printf '    return s + Chain<%d>::sum(s); } };\n' $((i + 20))
    done
    printf 'int main() { long total = 0;\n'
    for i in $(seq 1 "$1"); do printf '  total += std::make_unique<T%d>()->run();\n' "$i"; done
    printf '  std::cout << total << " " << std::regex_replace(std::string("a1b22c333"), std::regex("[0-9]+"), "#") << "\\n"; }\n'
}

# plain_functions COUNT: prints a C program of COUNT small functions.
plain_functions() {
    local i
    for i in $(seq 1 "$1"); do
        printf 'static int f%d(int x) { switch (x %% 7) { case 0: return x * %d; case 1: return x ^ %d; default: return x + %d; } }\n' \
            "$i" "$i" $((i * 7)) $((i * 3))
    done
    printf '#include <stdio.h>\nint main(void) { unsigned s = 0;\n'
    for i in $(seq 1 "$1"); do printf 's += (unsigned)f%d((int)(s & 255));\n' "$i"; done
    printf 'printf("%%u\\n", s); return 0; }\n'
}

# For servers that refuse to run as root: as root they run as the user `nobody`, who owns the files that
# they write. setpriv is a test as well: it keeps its capabilities on its only thread (PR_SET_KEEPCAPS),
# and glibc ends it if it has a second thread.
unprivileged() {
    [ "$(id -u)" = 0 ] || { "$@"; return; }
    setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups "$@"
}
give() { if [ "$(id -u)" = 0 ]; then chown -R nobody "$@"; fi; }

# free_port: prints a port of 127.0.0.1 on which no process listens.
free_port() {
    local port
    for port in $(shuf -i 20000-32000 -n 50); do
        if ! { true <>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then echo "$port"; return; fi
    done
    echo "no free port found" >&2
    return 1
}

preloaded $$
