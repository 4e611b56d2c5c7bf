# Small programs of Debian with a result to compare: programs.sh NAME, run by bash in an empty
# folder.
folder=$PWD
case $1 in
    date) date -u +%F; id -un; ls -l /etc/passwd; uname -s; basename "$folder" | wc -l ;;
    late) "$(dirname "$0")/late" "$(dirname "$0")/liblate.so" ;; # tests/systems/late.c
    ls) ls -lR --time-style=+%s /usr/lib /etc ;;
    sort) # of several threads
        seq 300000 | sed 's/\(.\)\(.*\)/\2 \1/' | sort --parallel=4 --buffer-size=4M -k 1 |
            sed -n '1~5000p'
        ;;
    bash)
        declare -A count
        for ((i = 0; i < 20000; i++)); do
            word=w$((i * i % 997))
            count[$word]=$((${count[$word]:-0} + 1))
        done
        for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort
        for i in 1 2 3 4 5 6 7 8; do (echo "$(echo "$(echo "child $i: $(seq 100 | wc -l)")")"); done
        ;;
    python3) # of 8 threads, with children
        python3 - <<'P'
import json, os, socket, subprocess, sys, tempfile, threading, zlib
results = [None] * 8
def work(number):
    table = {str(i * number): [i] * (i % 50) for i in range(5000)}
    text = json.dumps(table)
    with tempfile.TemporaryFile("w+") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        again = json.load(file)
    results[number] = (len(text), zlib.crc32(zlib.compress(text.encode())), again == table)
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*results, sep="\n")
one, other = socket.socketpair()
one.sendall(b"x" * 1000)
print(len(other.recv(5000)))
for i in range(5):
    print(subprocess.run([sys.executable, "-c", f"print(len('x' * {i}000000))"],
                         capture_output=True, text=True).stdout.strip())
P
        ;;
    perl)
        perl -e '
            my %seen;
            for my $i (1 .. 200000) { push @{$seen{$i * 7919 % 10007}}, "value $i" }
            for my $key (sort { $a <=> $b } keys %seen) {
                print "$key ", scalar(@{$seen{$key}}), " ", join(",", @{$seen{$key}}[0 .. 2]), "\n";
            }
            my $text = join " ", map { "word$_" } 1 .. 100000;
            my $count = () = $text =~ /(\w+)7\b/g;
            print "$count\n";'
        ;;
    git) # with children and threads
        export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
        export GIT_CONFIG_NOSYSTEM=1 HOME=$folder
        git init -q . && git config user.name Nobody && git config user.email nobody@example.org
        for i in 1 2 3 4 5; do
            for k in 1 2 3 4 5 6; do seq $((i * k)) $((i * k * 300)) >"file $k"; done
            git add file* && git commit -q -m "change $i"
        done
        git log --stat --patch | sha256sum
        git repack -q -a -d --threads=4 && git fsck --no-progress --strict
        git log --format=%H && git blame "file 3" | tail -n 3 && git grep -c 77 | sort
        ;;
    apt)
        apt list --installed && apt-cache dumpavail | sha256sum &&
            apt-get --simulate remove git && apt-mark showmanual
        ;;
    *) echo "there is no program $1" >&2; exit 2 ;;
esac
