# needs: dot neato
# debian: graphviz
# about: layouts of a graph of 330 nodes with two programs
# stresses: small blocks of graphs and splines
# not shown: frees: much remains until the end
source "$SUPPORT"
awk 'BEGIN { print "digraph g {"; for (i = 1; i < 330; i++) { printf "n%d [label=\"node %d\\nwith text\"];\n", i, i
    printf "n%d -> n%d [label=\"e%d\"];\n", i * 7919 % 329, i, i; if (i % 3 == 0) printf "n%d -> n%d;\n", i, int(i / 3) }
    for (c = 0; c < 6; c++) { printf "subgraph cluster%d {", c; for (i = 1; i < 9; i++) printf " n%d;", c * 20 + i; print " }" } print "}" }' >big.dot
# work:
source "$SUPPORT"
dot -Tsvg big.dot | sha256sum
dot -Tpng -Gdpi=40 big.dot | sha256sum
dot -Tplain big.dot | sha256sum
neato -Gmaxiter=60 -Tplain big.dot | wc -l
sfdp -Tplain big.dot | wc -l
