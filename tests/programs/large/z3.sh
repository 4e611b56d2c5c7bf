# needs: z3
# debian: z3
# about: pigeons, bit vectors and arrays
# stresses: nodes and clauses of 16 to 256 B, freed out of order
# not shown: threads: there is one
source "$SUPPORT"
pigeons() { # pigeons HOLES: one more than fit, as SMT
    awk -v n="$1" 'BEGIN {
        for (i = 0; i <= n; i++) printf "(declare-const p%d Int)(assert (and (>= p%d 0) (< p%d %d)))\n", i, i, i, n
        printf "(assert (distinct"; for (i = 0; i <= n; i++) printf " p%d", i
        print "))(check-sat)"
    }'
}
pigeons 7 >pigeons.smt2
awk 'BEGIN {
    n = 9
    for (i = 0; i < n; i++) printf "(declare-const q%d (_ BitVec 8))(assert (bvult q%d #x%02x))\n", i, i, n
    for (i = 0; i < n; i++) for (j = 0; j < i; j++)
        printf "(assert (and (distinct q%d q%d) (distinct (bvadd q%d #x%02x) q%d) (distinct (bvsub q%d #x%02x) q%d)))\n", i, j, i, i - j, j, i, i - j, j
    print "(check-sat)(get-model)"
}' >queens.smt2
awk 'BEGIN {
    print "(declare-const a (Array Int Int))"
    for (i = 1; i < 60; i++) printf "(declare-const x%d Int)(assert (= (select (store a %d x%d) %d) %d))\n", i, i % 12, i, i % 12, i
    for (i = 2; i < 60; i++) printf "(assert (< (* 3 x%d) (+ x%d x%d 400)))\n", i, i - 1, i
    print "(check-sat)"
    for (i = 0; i < 90; i++) printf "(declare-const r%d Real)\n", i
    for (i = 1; i < 90; i++) printf "(assert (and (< (+ r%d (* 3 r%d)) %d) (> (- r%d r%d) (/ 1 %d))))\n", i, i - 1, i * 7, i, i - 1, i
    print "(check-sat)"
}' >mixed.smt2
# work:
source "$SUPPORT"
z3 pigeons.smt2
z3 queens.smt2
z3 -st mixed.smt2 | grep -e '^sat' -e ':mk-bool-var' -e ':conflicts '
