#!/usr/bin/env bash
# Attaches keel to real programs again and again, with work for them meanwhile. Every program must
# live on and answer afterwards, and each journal must have operations and call stacks. Fails if no
# program is installed.
#
#     tests/attach.sh KEEL [ROUNDS] [PROGRAM...]
#
# Prints one line for each program: rounds, the longest pause, the longest processor time in it, and
# in how many rounds blocks from before were freed.
set -u
keel=$(realpath "$1")
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
wanted=${*:-python redis nginx postgres java sdl}
folder=$(mktemp -d)
pids=()
failed=0
tried=0
clean() {
    [ ${#pids[@]} -eq 0 ] || kill -INT "${pids[@]}" 2>/dev/null
    sleep 1
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
    rm -rf "$folder"
}
trap clean EXIT
cd "$folder" || exit 1
export KEEL_PREFIX=${KEEL_PREFIX:-$(dirname "$(dirname "$keel")")}
unset LD_PRELOAD

# has NAME: whether a program is installed.
has() { command -v "$1" >/dev/null; }

# fail REASON: of a round of `attach`.
fail() {
    echo "$name: FAILED in round $round: $1"
    failed=1
}

# attach NAME PID CHECK...: records the process `rounds` times. CHECK must succeed after each.
attach() {
    local name=$1 pid=$2 longest=0 work=0 foreign=0 pause round operations
    shift 2
    for ((round = 1; round <= rounds; round++)); do
        if ! "$keel" attach "$pid" --for 30 --max-events 500 --stacks 16 \
            -o "$name.journal.parquet" >"$name.log" 2>&1; then
            fail "$(grep -v operations "$name.log" | tail -2)"
            return
        fi
        "$keel" info --verify "$name.journal.parquet" >"$name.info" 2>&1 || {
            fail "the journal is not valid: $(tail -1 "$name.info")"
            return
        }
        "$keel" blame "$name.journal.parquet" >"$name.blame" 2>&1 || {
            fail "$(tail -1 "$name.blame")"
            return
        }
        if ! kill -0 "$pid" 2>/dev/null || ! "$@" >/dev/null 2>&1; then
            fail "the program does not answer"
            return
        fi
        operations=$(sed -n 's/^keel attach: \([0-9,.]*\) operations.*/\1/p' "$name.log" | head -1)
        if [ "${operations:-0}" = 0 ]; then
            fail "the journal has no operations"
            return
        fi
        pause=$(sed -n 's/.*times, for \([0-9.]*\) ms.*/\1/p' "$name.log")
        longest=$(printf '%s\n%s\n' "$longest" "${pause:-0}" | sort -g | tail -1)
        pause=$(sed -n 's/.*it worked \([0-9.]*\) ms.*/\1/p' "$name.log")
        work=$(printf '%s\n%s\n' "$work" "${pause:-0}" | sort -g | tail -1)
        grep -q "allocated before" "$name.log" && foreign=$((foreign + 1))
    done
    echo "$name: $rounds rounds, longest pause $longest ms, longest work $work ms," \
        "blocks from before in $foreign"
}

# wait_for CHECK...: up to ten seconds.
wait_for() {
    local i
    for ((i = 0; i < 100; i++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

# beats FILE: whether a program writes the file again and again.
beats() {
    rm -f "$1"
    wait_for test -s "$1"
}

try_python() {
    # The system's own one is often not position-independent.
    local python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    has "$python" || return 77
    cat >work.py <<'END'
import os, time, threading
def churn():
    kept = {}
    while True:
        for i in range(2000):
            kept[i % 97] = bytearray(600 + i % 4000)
        open("beat", "w").write(str(time.time()))
        time.sleep(0.002)
threading.Thread(target=churn, daemon=True).start()
churn()
END
    "$python" work.py &
    pids+=($!)
    disown
    beats beat
    attach python "${pids[-1]}" beats beat
}

try_redis() {
    has redis-server || return 77
    redis-server --port 0 --unixsocket "$folder/redis" --save '' >redis.out 2>&1 &
    local pid=$!
    pids+=("$pid")
    disown
    wait_for redis-cli -s "$folder/redis" ping
    (while redis-benchmark -s "$folder/redis" -q -n 20000 -c 5 -t set,get,lpush; do :; done) \
        >/dev/null 2>&1 &
    pids+=($!)
    disown
    attach redis "$pid" redis-cli -s "$folder/redis" ping
}

try_nginx() {
    has nginx && has curl || return 77
    mkdir -p nginx
    cat >nginx.conf <<END
pid $folder/nginx/pid; error_log $folder/nginx/log; daemon off; worker_processes 1;
events { worker_connections 64; }
http { access_log off; client_body_temp_path $folder/nginx/b; proxy_temp_path $folder/nginx/p;
fastcgi_temp_path $folder/nginx/f; uwsgi_temp_path $folder/nginx/u; scgi_temp_path $folder/nginx/s;
server { listen unix:$folder/nginx/socket; location / { return 200 "ok"; } } }
END
    chmod -R a+rwx "$folder"
    nginx -c "$folder/nginx.conf" >nginx.out 2>&1 &
    local pid=$!
    pids+=("$pid")
    disown
    local ask="curl -sf --unix-socket $folder/nginx/socket http://localhost/"
    wait_for $ask
    (while $ask; do :; done) >/dev/null 2>&1 &
    pids+=($!)
    disown
    attach nginx "$(pgrep -P "$pid" | head -1)" $ask
}

try_postgres() {
    local bin user=()
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
    [ -n "$bin" ] || return 77
    chmod a+rwx "$folder"
    [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    "${user[@]}" "$bin/initdb" -D "$folder/pg" >pg.out 2>&1 || return 77
    "${user[@]}" "$bin/postgres" -D "$folder/pg" -k "$folder" -c listen_addresses= >pg.log 2>&1 &
    pids+=($!)
    disown
    local ask=("${user[@]}" "$bin/psql" -h "$folder" -Atqc "select 1" postgres)
    wait_for "${ask[@]}"
    local churn='do $$ begin loop perform array_agg(x::text) from generate_series(1, 3000) x;
        perform pg_sleep(0.002); end loop; end $$'
    "${user[@]}" "$bin/psql" -h "$folder" -Atqc "$churn" postgres >/dev/null 2>&1 &
    pids+=($!)
    disown
    local backend="select pid from pg_stat_activity where query like 'do%' limit 1"
    local pid=''
    for _ in $(seq 100); do
        pid=$("${user[@]}" "$bin/psql" -h "$folder" -Atqc "$backend" postgres 2>/dev/null)
        [ -n "$pid" ] && break
        sleep 0.1
    done
    attach postgres "$pid" "${ask[@]}"
}

try_java() {
    has java && has javac || return 77
    cat >Work.java <<'END'
public class Work {
    public static void main(String[] a) throws Exception {
        for (long i = 0;; i++) {
            java.util.zip.Deflater d = new java.util.zip.Deflater();
            d.setInput(new byte[4000]); d.finish(); d.deflate(new byte[4000]); d.end();
            if (i % 50 == 0) {
                java.nio.file.Files.writeString(java.nio.file.Path.of("jbeat"), "" + i);
                Thread.sleep(2);
            }
        }
    }
}
END
    javac Work.java >java.out 2>&1 || return 77
    java -Xmx64m -cp . Work >>java.out 2>&1 &
    pids+=($!)
    disown
    beats jbeat
    attach java "${pids[-1]}" beats jbeat
}

try_sdl() {
    local python
    for python in python3 /usr/bin/python3 ''; do
        [ -n "$python" ] || return 77
        has "$python" && "$python" -c 'import pygame' >/dev/null 2>&1 && break
    done
    cat >game.py <<'END'
import os
os.environ["SDL_VIDEODRIVER"] = os.environ["SDL_AUDIODRIVER"] = "dummy"
import pygame
pygame.init()
screen = pygame.display.set_mode((320, 240))
clock = pygame.time.Clock()
while True:
    for i in range(30):
        screen.blit(pygame.Surface((20 + i, 20)), (i * 9, i * 7))
    pygame.event.pump()
    pygame.display.flip()
    open("gbeat", "w").write("x")
    clock.tick(60)
END
    "$python" game.py >game.out 2>&1 &
    pids+=($!)
    disown
    beats gbeat
    attach sdl "${pids[-1]}" beats gbeat
}

for name in $wanted; do
    "try_$name"
    if [ $? -eq 77 ]; then
        echo "$name: SKIPPED: it is not installed"
    else
        tried=1
    fi
done
[ $tried -eq 1 ] || {
    echo "FAILED: no program was tried"
    failed=1
}
exit $failed
