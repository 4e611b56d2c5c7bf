# needs: gawk
# debian: gawk
# about: counts and joins the words of 80,000 lines
# stresses: strings and array entries
# not shown: threads: there is one
source "$SUPPORT"
words 80000 9 >text
# work:
source "$SUPPORT"
gawk '{ count[$2]++; split($0, part, /[- ]/); for (i in part) seen[part[i]] = seen[part[i]] substr(part[i], 1, 1) }
    END { n = asorti(count, key); for (i = 1; i <= n; i += 97) print key[i], count[key[i]]; for (k in seen) { total += length(seen[k]); m++ } print m, total }' text
gawk '{ line[NR % 5000] = toupper(gensub(/([0-9])([0-9])/, "\\2\\1", "g", $0)) } END { for (i = 0; i < 5000; i += 500) print line[i] }' text
gawk -M 'BEGIN { x = 1; for (i = 1; i <= 2500; i++) x *= i; print length(x "") }'
gawk 'function f(n) { return n < 2 ? n "" : f(n - 1) + f(n - 2) } BEGIN { print f(19); for (i = 0; i < 150000; i++) a[i % 1000][i % 77] = i ".x"; for (i in a) for (j in a[i]) s += length(a[i][j]); print s }'
