# needs: php
# debian: php-cli
# about: JSON, strings, tables and cycles of objects, with its pools off and on
# stresses: one small block for each value, in the first half
# not shown: requests of a web server
# Its pools are switched off: each value is a malloc.
source "$SUPPORT"
cat >work.php <<'PHP'
<?php
mt_srand(7);
function document(int $depth) {
    if ($depth == 0) return [mt_rand(), "text " . str_repeat("x", mt_rand(0, 60)), null, true][mt_rand(0, 3)];
    $made = [];
    for ($i = 0; $i < 6; $i++) $made["key $i " . mt_rand(0, 999)] = document($depth - 1);
    return $made;
}
$documents = [];
for ($i = 0; $i < 60; $i++) $documents[] = document(4);
$text = json_encode($documents);
if (json_encode(json_decode($text)) !== $text) exit(1);
echo strlen($text), " ", hash("sha256", $text), "\n";
echo strlen(preg_replace_callback('/(\d)(\d)/', fn($m) => $m[2] . $m[1], $text)), "\n";
echo md5(serialize(unserialize(serialize($documents)))), "\n";
$table = [];
for ($i = 0; $i < 1500000; $i++) {
    $table["k" . mt_rand(0, 20000)] = str_repeat("v", mt_rand(0, 100));
    if ($i % 3 == 0) unset($table["k" . mt_rand(0, 20000)]);
}
ksort($table);
echo count($table), " ", md5(implode(",", $table)), "\n";
class Node { public $next; public array $list = []; function __construct(public string $name) {} }
for ($round = 0; $round < 60; $round++) {
    $first = new Node("0");
    $at = $first;
    for ($i = 1; $i < 8000; $i++) { $at->next = new Node("n$i"); $at->next->list[] = $first; $at = $at->next; }
    $at->next = $first;
    unset($first, $at);
    gc_collect_cycles();
}
$words = preg_split('/\W+/', $text);
usort($words, fn($a, $b) => strcmp($b, $a));
echo count($words), " ", md5(join(" ", $words)), "\n";
echo strlen(gzcompress(gzuncompress(gzcompress($text)))) > 0 ? "zlib\n" : "";
PHP
# work:
source "$SUPPORT"
USE_ZEND_ALLOC=0 php -n -d memory_limit=-1 work.php
php -n -d memory_limit=-1 work.php | sha256sum
