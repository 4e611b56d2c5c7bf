# needs: db_bench ldb
# debian: rocksdb-tools
# about: fills, reads, overwrites and compacts a database with db_bench, in two threads
# stresses: blocks of 4 KiB of the cache, keys and write buffers, freed by background threads
# not shown: the disk: the data fit into memory
# What db_bench prints contains times. What the database holds in the end depends only on the seed:
# one thread writes.
source "$SUPPORT"
bench() { db_bench --db="$PWD/data" --num=40000 --value_size=200 --seed=7 --threads=1 "$@" >>log 2>&1; }
bench --benchmarks=fillrandom,overwrite,readrandom,readseq,compact --write_buffer_size=1048576 \
    --cache_size=4194304 --compression_type=none
bench --use_existing_db=1 --benchmarks=readrandom,seekrandom,multireadrandom --threads=2 --reads=20000 \
    --cache_size=1048576
bench --use_existing_db=1 --benchmarks=deleterandom,compact,readmissing
if grep -qi "error\|corrupt" log; then tail -n 5 log >&2; exit 1; fi
ldb --db="$PWD/data" scan --hex | sha256sum
