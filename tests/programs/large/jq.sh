# needs: jq
# debian: jq
# about: groups, joins and rewrites 12,000 JSON objects
# stresses: one small block for each value; reference counts free at once
# not shown: threads: there is one
source "$SUPPORT"
awk 'BEGIN { print "["; for (i = 0; i < 12000; i++) printf "%s{\"id\": %d, \"name\": \"item %d\", \"list\": [%d, %d, \"x\"], \"deep\": {\"k\": {\"v\": %d}}}\n", i ? "," : "", i, i * 7919 % 10007, i % 7, i % 11, i % 13; print "]" }' >big.json
# work:
source "$SUPPORT"
jq -c 'group_by(.deep.k.v) | map({v: .[0].deep.k.v, n: length, sum: (map(.id) | add)})' big.json
jq 'map(select(.list[0] == 3) | .name |= ascii_upcase | del(.deep)) | length' big.json
jq -c '[.[] | .name | gsub("(?<a>[0-9])"; "<\(.a)>")] | unique | length' big.json
jq -S . big.json | sha256sum
jq -n '[range(100000) | tostring] | join(",") | length'
jq -c '[paths] | length' big.json
