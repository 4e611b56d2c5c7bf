# needs: redis-server redis-cli redis-benchmark
# debian: redis-server redis-tools
# about: a server under load, its data set's digest, save, and a fork that saves
# stresses: strings of 1 to 700 B that live long, and many short ones
# not shown: contention: one thread executes the commands
source "$SUPPORT"
socket=$PWD/redis.sock
redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --enable-debug-command yes --dir "$PWD" \
    --io-threads 2 >redis.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -S "$socket" ] && break; sleep 0.1; done
preloaded $server
cli() { redis-cli -s "$socket" "$@"; }
# The result of this load does not depend on timing; the digest of the data set is compared.
{
    for i in $(seq 1 8000); do
        printf 'SET key:%d %0*d\r\n' "$i" $((i % 700 + 1)) "$i"
        printf 'LPUSH list:%d %d\r\nHSET hash:%d f%d v%d\r\nZADD z:%d %d m%d\r\n' $((i % 50)) "$i" $((i % 90)) "$i" "$i" $((i % 9)) "$i" "$i"
        if [ $((i % 3)) = 0 ]; then printf 'DEL key:%d\r\nAPPEND text:%d %d\r\n' $((i / 2)) $((i % 20)) "$i"; fi
    done
} | cli --pipe | tail -n 1
cli dbsize
cli debug digest
cli eval 'local t = {} for i = 1, 20000 do t[i] = redis.call("HSET", "lua:" .. i % 10, i, string.rep("x", i % 100)) end return #t' 0
cli lrange list:7 0 20
cli save
cli debug digest
cli bgsave >/dev/null
redis-benchmark -s "$socket" -n 10000 -c 20 -P 8 -d 300 -q -t set,get,lpush,lpop,sadd,hset,lrange_100,mset >benchmark.log 2>&1
redis-benchmark -s "$socket" -n 10000 -c 20 --threads 2 -q -t set,get >>benchmark.log 2>&1
if grep -qi error benchmark.log; then cat benchmark.log >&2; exit 1; fi
cli flushall
cli debug reload
cli dbsize
cli memory purge || true
kill $server
wait $server || true
grep -c 'Redis is now ready to exit' redis.log
