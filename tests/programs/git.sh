# needs: git
# debian: git
# about: commits, a merge, repack, gc, a clone and a rebase
# stresses: the start of an allocator in many short processes; buffers of all sizes
# not shown: processes that run for long
source "$SUPPORT"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
git init -q -b main origin
cd origin
for i in $(seq 1 60); do
    export GIT_AUTHOR_DATE="$((1700000000 + i * 1000)) +0000" GIT_COMMITTER_DATE="$((1700000000 + i * 1000)) +0000"
    for file in $(seq 1 $((i % 7 + 2))); do
        mkdir -p "d$((i % 5))"
        words 400 $((i * 31 + file)) >>"d$((i % 5))/f$file.txt"
    done
    git add -A
    git commit -q -m "Change number $i"
    if [ $((i % 20)) = 0 ]; then git branch "side$i"; fi
done
git checkout -q side20
words 300 5 >other.txt
git add -A
git commit -q -m "On the side"
git checkout -q main
git merge -q --no-edit -m "Merge the side" side20
git log --stat --format='%H %s' | sha256sum
git log -p -M --format=%T | sha256sum
git blame d1/f2.txt | sha256sum
git grep -c 'beta' | sort
git repack -q -a -d -f --depth=50 --window=50 --threads=2
git gc -q --aggressive
git fsck --full --strict
git rev-list --objects --all | sort | sha256sum
cd ..
git clone -q --no-local origin copy
cd copy
git checkout -q -b work
git rebase -q HEAD~3
git diff HEAD~30 | sha256sum
git archive HEAD | tar -t | sort | sha256sum
git count-objects -v | grep '^in-pack'
