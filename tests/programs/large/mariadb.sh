# needs: mariadbd mariadb-install-db mariadb mariadb-dump
# debian: mariadb-server
# about: creates a data directory, then SQL, procedures and four clients
# stresses: buffers of a server with a thread for each client
# not shown: its page cache: one large mapping
source "$SUPPORT"
cat >work.sql <<'SQL'
CREATE DATABASE work; USE work;
CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(60), price DECIMAL(12, 2), tag INT, doc TEXT, KEY by_name (name), KEY by_tag (tag, price));
INSERT INTO item SELECT seq, CONCAT('item ', seq * 7919 % 100003), seq * 1.5, seq % 321, REPEAT('x', seq % 200) FROM seq_1_to_50000;
SELECT COUNT(*), SUM(price), SUM(LENGTH(doc)) FROM item;
SET group_concat_max_len = 1000000;
SELECT tag, COUNT(*), SUM(price), MD5(GROUP_CONCAT(name ORDER BY id)) FROM item WHERE tag < 8 GROUP BY tag ORDER BY tag;
SELECT a.tag, COUNT(DISTINCT b.name) FROM item a JOIN item b ON a.tag = b.tag AND a.id < b.id WHERE a.tag IN (3, 5, 7) GROUP BY a.tag ORDER BY 1;
SELECT id, RANK() OVER (PARTITION BY tag ORDER BY price DESC) r FROM item WHERE tag = 17 ORDER BY r, id LIMIT 10;
WITH RECURSIVE path (n, steps) AS (SELECT id, 0 FROM item WHERE id <= 300
  UNION ALL SELECT IF(n % 2 = 0, n DIV 2, 3 * n + 1), steps + 1 FROM path WHERE n > 1) SELECT MAX(steps), COUNT(*) FROM path;
CREATE TABLE other ENGINE=Aria SELECT id, JSON_OBJECT('id', id, 'name', name, 'list', JSON_ARRAY(tag, price)) j FROM item;
SELECT SUM(JSON_VALUE(j, '$.list[0]')), MAX(JSON_VALUE(j, '$.name')) FROM other;
DELIMITER //
CREATE PROCEDURE folded(IN rounds INT) BEGIN
  DECLARE t TEXT DEFAULT ''; DECLARE i INT DEFAULT 0;
  WHILE i < rounds DO SET i = i + 1; SET t = MD5(CONCAT(t, (SELECT name FROM item WHERE id = i))); END WHILE;
  SELECT t; END //
DELIMITER ;
CALL folded(6000);
START TRANSACTION; UPDATE item SET name = UPPER(name) WHERE id % 3 = 0; DELETE FROM item WHERE id % 7 = 0; COMMIT;
SELECT MD5(GROUP_CONCAT(REGEXP_REPLACE(name, '([0-9])([0-9])', '\\2\\1') ORDER BY id)) FROM item WHERE id < 20000;
OPTIMIZE TABLE item; CHECK TABLE item, other;
SQL
# work:
source "$SUPPORT"
mkdir data
give data
user=()
[ "$(id -u)" != 0 ] || user=(--user=nobody)
give . # its sockets and temporary files
mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db "${user[@]}" >install.log 2>&1
mariadbd --no-defaults --datadir="$PWD/data" --tmpdir="$PWD" --socket="$PWD/db.sock" --pid-file="$PWD/db.pid" --skip-networking \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --log-error="$PWD/db.log" "${user[@]}" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
sql() { mariadb --no-defaults --socket="$PWD/db.sock" --user=root --batch "$@"; }
for _ in $(seq 300); do sql -e 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
preloaded $server
sql <work.sql
for client in 0 1 2 3; do
    sql work -e "SET group_concat_max_len = 1000000; SELECT $client, MD5(GROUP_CONCAT(name, price ORDER BY id)) FROM item WHERE tag % 4 = $client" >"client$client" &
    clients[client]=$!
done
wait "${clients[@]}"
cat client?
mariadb-dump --no-defaults --socket="$PWD/db.sock" --user=root --skip-dump-date work | sha256sum
kill $server
wait $server || true
grep -c 'Shutdown complete' db.log
