# needs: setpriv
# debian: postgresql
# about: creates a data directory; SQL, procedures, four clients and a dump
# stresses: memory contexts: blocks of 8 KiB and more in forked processes
# not shown: small blocks: the contexts cut them
# A server of forked processes. It refuses to run as root, so as root it runs as the user `nobody`.
source "$SUPPORT"
cat >work.sql <<'SQL'
CREATE TABLE item (id int PRIMARY KEY, name text, price numeric(12, 2), tag int, doc jsonb);
INSERT INTO item SELECT i, 'item ' || (i::bigint * 7919 % 100003), i * 1.5, i % 321,
    jsonb_build_object('id', i, 'list', jsonb_build_array(i % 7, i % 11, repeat('x', i % 60)), 'deep', jsonb_build_object('k', i % 13))
  FROM generate_series(1, 60000) i;
CREATE INDEX by_name ON item (name text_pattern_ops);
CREATE INDEX by_doc ON item USING gin (doc jsonb_path_ops);
ANALYZE item;
SELECT count(*), sum(price), max(length(doc::text)) FROM item;
SELECT tag, count(*), sum(price), md5(string_agg(name, ',' ORDER BY id)) FROM item WHERE tag < 8 GROUP BY tag ORDER BY tag;
SELECT count(*) FROM item WHERE doc @> '{"deep": {"k": 5}}';
SELECT a.tag, count(DISTINCT b.name) FROM item a JOIN item b ON a.tag = b.tag AND a.id < b.id WHERE a.tag IN (3, 5, 7)
  GROUP BY a.tag ORDER BY 1;
SELECT id, rank() OVER (PARTITION BY tag ORDER BY price DESC) FROM item WHERE tag = 17 ORDER BY 2, 1 LIMIT 10;
WITH RECURSIVE path(n, steps) AS (SELECT id, 0 FROM item WHERE id <= 400
  UNION ALL SELECT CASE WHEN n % 2 = 0 THEN n / 2 ELSE 3 * n + 1 END, steps + 1 FROM path WHERE n > 1)
SELECT max(steps), count(*) FROM path;
CREATE FUNCTION folded(rounds int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text := ''; line record;
BEGIN
  FOR line IN SELECT name, id FROM item ORDER BY id LIMIT rounds LOOP
    t := md5(t || line.name);
    BEGIN
      IF line.id % 50 = 0 THEN RAISE EXCEPTION 'odd %', line.id; END IF;
    EXCEPTION WHEN OTHERS THEN t := t || '!';
    END;
  END LOOP;
  RETURN t;
END $$;
SELECT folded(20000);
SELECT md5(string_agg(regexp_replace(name, '(\d)(\d)', '\2\1', 'g'), '' ORDER BY id)) FROM item;
UPDATE item SET name = upper(name), doc = doc || '{"new": [1, 2, 3]}' WHERE id % 3 = 0;
DELETE FROM item WHERE id % 7 = 0;
VACUUM FULL item;
SELECT xmlelement(name x, string_agg(name, ';' ORDER BY id)) IS NOT NULL FROM item WHERE id < 5000;
SELECT md5(string_agg(i::text, '' ORDER BY name, id)) FROM item i;
SQL
# work:
source "$SUPPORT"
programs=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
mkdir data socket
give data socket
unprivileged "$programs/initdb" -D data -U keel --locale=C.UTF-8 --no-sync >init.log
unprivileged "$programs/postgres" -D data -k "$PWD/socket" -c listen_addresses= -c fsync=off -c max_parallel_workers=0 >server.log 2>&1 &
server=$!
stop() { kill -INT "$(head -n 1 data/postmaster.pid)"; }
trap 'stop 2>/dev/null || true' EXIT
sql() { psql -X -q -A -t -h "$PWD/socket" -U keel -d postgres "$@"; }
for _ in $(seq 300); do sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
preloaded "$(head -n 1 data/postmaster.pid)"
sql -v ON_ERROR_STOP=1 <work.sql
for client in 1 2 3 4; do
    sql -c "SELECT $client, md5(string_agg(name || price, ',' ORDER BY id)) FROM item WHERE tag % 4 = $client - 1" >"client$client" &
    clients[client]=$!
done
wait "${clients[@]}"
cat client?
pg_dump -h "$PWD/socket" -U keel postgres | grep -v -e '^--' -e '^.restrict' -e '^.unrestrict' | sha256sum
stop
wait $server
grep -c 'database system is shut down' server.log
