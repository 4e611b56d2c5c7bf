# needs: sort awk
# debian: mawk
# about: sorts 700,000 lines with four threads
# stresses: a few large buffers
# not shown: small blocks: there are hardly any
source "$SUPPORT"
words 700000 9 >text
# work:
source "$SUPPORT"
sort --parallel=4 -S 40M text | sha256sum
sort --parallel=2 -S 8M -k2,2 -k1,1nr text | sha256sum
sort -n -u text | wc -l
# Not head: it would close the pipe early, which sometimes ends sort with a signal.
cut -d' ' -f2 text | sort | uniq -c | sort -rn | sed -n 1,20p
