# needs: vim
# debian: vim
# about: a batch script over 12,000 lines
# stresses: a small block for each line and its undo
# not shown: threads: there is one
source "$SUPPORT"
words 12000 4 >text
cat >work.vim <<'VIM'
set nocompatible undolevels=1000
edit text
syntax on
%s/\(\d\)\(\d\)/\2\1/g
sort /line/
global/alpha/normal Aend
for i in range(1, 400)
  execute i . 'copy $'
  silent undo
  silent redo
endfor
let words = {}
for line in getline(1, '$')
  for word in split(line, '\W\+')
    let words[word] = get(words, word, 0) + 1
  endfor
endfor
let top = sort(items(words), {a, b -> b[1] != a[1] ? b[1] - a[1] : (a[0] > b[0] ? 1 : -1)})[:5]
call append('$', map(copy(top), {_, pair -> pair[0] . ' ' . pair[1]}))
let list = map(range(60000), 'string(v:val * 7919 % 10007)')
call append('$', string(len(uniq(sort(list)))))
1,3000!sort -r
write! out
quitall!
VIM
# work:
source "$SUPPORT"
vim -e -s -n -u NONE -i NONE -S work.vim </dev/null >log 2>&1 || { tail -n 5 log >&2; exit 1; }
tail -n 7 out
sha256sum <out
