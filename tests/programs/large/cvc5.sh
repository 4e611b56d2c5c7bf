# needs: cvc5
# debian: cvc5
# about: solves queens, strings, bit vectors and arrays
# stresses: nodes of expressions, freed out of order; tables that grow
# not shown: threads: there is one
source "$SUPPORT"
awk 'BEGIN {
    print "(set-logic ALL)(set-option :produce-models true)"
    n = 7
    for (i = 0; i < n; i++) printf "(declare-const q%d Int)(assert (and (>= q%d 0) (< q%d %d)))\n", i, i, i, n
    for (i = 0; i < n; i++) for (j = 0; j < i; j++)
        printf "(assert (and (distinct q%d q%d) (distinct (+ q%d %d) q%d) (distinct (- q%d %d) q%d)))\n", i, j, i, i - j, j, i, i - j, j
    print "(check-sat)(get-model)"
}' >queens.smt2
awk 'BEGIN {
    print "(set-logic QF_SLIA)(set-option :strings-exp true)(set-option :produce-models true)"
    for (i = 0; i < 40; i++) printf "(declare-const s%d String)(assert (= (str.len s%d) %d))\n", i, i, i % 9 + 3
    for (i = 1; i < 40; i++) printf "(assert (str.contains (str.++ s%d s%d) \"k%d\"))\n", i - 1, i, i % 10
    print "(check-sat)"
}' >strings.smt2
awk 'BEGIN {
    print "(set-logic QF_BV)"
    for (i = 0; i < 12; i++) printf "(declare-const b%d (_ BitVec 16))\n", i
    for (i = 2; i < 12; i++) printf "(assert (= (bvmul b%d b%d) (bvadd (bvxor b%d #x%04x) #x0101)))\n", i - 2, i - 1, i, i * 517
    print "(assert (distinct b0 b1 b2 b3))(check-sat)"
}' >bits.smt2
# work:
source "$SUPPORT"
cvc5 queens.smt2
cvc5 strings.smt2
cvc5 bits.smt2
