# needs: sqlite3
# debian: sqlite3
# about: SQL over tables and indices in a file
# stresses: short-lived blocks of a statement; the page cache
# not shown: threads: there is one
source "$SUPPORT"
cat >work.sql <<'SQL'
PRAGMA journal_mode = WAL;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, data BLOB, tag INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 100003), i * 1.5, zeroblob(i % 900), i % 321 FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_tag ON item(tag, price);
SELECT count(*), sum(length(data)), avg(price) FROM item;
SELECT a.tag, count(*), group_concat(a.id) FROM item a JOIN item b ON a.name = b.name WHERE a.tag < 5 AND a.id < 3000
  GROUP BY a.tag ORDER BY 1;
SELECT name, rank() OVER (PARTITION BY tag ORDER BY price DESC) FROM item WHERE tag = 17 ORDER BY 2, 1 LIMIT 20;
UPDATE item SET data = x'00ff' || name, name = upper(name) WHERE id % 3 = 0;
DELETE FROM item WHERE id % 7 = 0;
CREATE TABLE doc AS SELECT id, json_object('id', id, 'name', name, 'list', json_array(tag, price)) AS j FROM item;
SELECT sum(json_extract(j, '$.list[1]')), max(json_extract(j, '$.name')) FROM doc;
SELECT count(DISTINCT substr(name, -4)) FROM item;
VACUUM;
PRAGMA integrity_check;
SQL
# work:
source "$SUPPORT"
sqlite3 work.db <work.sql
sqlite3 work.db .dump | sha256sum
