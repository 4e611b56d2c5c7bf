# needs: memcached python3
# debian: memcached python3
# about: eight clients and four threads of a server
# stresses: buffers of connections
# not shown: its items: they are in its own slabs
source "$SUPPORT"
cat >client.py <<'PYTHON'
import hashlib, socket, sys, threading

def client(n, results):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("cache.sock")
        stream = connection.makefile("rwb", buffering=1 << 16)
        def ask(words, body=b""):
            stream.write(words.encode() + b"\r\n" + (body + b"\r\n" if body else b""))
            stream.flush()
            return stream.readline()
        text = hashlib.sha256()
        for i in range(6000):
            value = (b"%d," % (i * 7919)) * (i % 90 + 1)
            text.update(ask(f"set k{n}:{i % 700} {i % 5} 0 {len(value)}", value))
            if i % 4 == 0:
                text.update(ask(f"append k{n}:{i % 700} 0 0 3", b"end"))
            if i % 7 == 0:
                text.update(ask(f"delete k{n}:{i % 300}"))
            if i % 3 == 0:
                line = ask("get " + " ".join(f"k{n}:{k}" for k in range(i % 100, i % 100 + 20)))
                while line != b"END\r\n":
                    text.update(line)
                    text.update(stream.read(int(line.split()[3]) + 2))
                    line = stream.readline()
        results[n] = text.hexdigest()

results = {}
for _ in range(2):
    threads = [threading.Thread(target=client, args=(n, results)) for n in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(sorted(results.items()))
PYTHON
# work:
source "$SUPPORT"
user=()
[ "$(id -u)" != 0 ] || user=(-u root)
memcached -s "$PWD/cache.sock" -m 200 -t 4 "${user[@]}" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -S cache.sock ] && break; sleep 0.1; done
preloaded $server
python3 client.py
kill $server
wait $server || true
