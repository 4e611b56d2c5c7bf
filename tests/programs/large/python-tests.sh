# needs: /usr/bin/python3 /usr/lib/python3.11/test/test_threading.py
# debian: libpython3.11-testsuite
# measured: no
# The interpreter's own tests, from Debian: the result of each must be the same with and without
# Keel.
source "$SUPPORT"
for module in threading thread threading_local capi ctypes json list dict set zlib gc weakref bytes memoryview array \
    buffer fork1 queue mmap re unicode pickle struct sqlite3 xml_etree_c lzma bz2 hashlib tracemalloc; do
    status=0
    timeout 200 /usr/bin/python3 -m test -v "test_$module" >"$module.log" 2>&1 || status=$?
    # Tests with several threads mix their lines; only complete results are compared.
    sed -n 's/^\(test_[a-z0-9_]* ([A-Za-z0-9_.]*)\) \.\.\. \(ok\|FAIL\|ERROR\|skipped\).*/\1 \2/p' "$module.log" | sort >"$module.verdicts"
    echo "$module ended with $status: $(wc -l <"$module.verdicts") tests, $(grep -c ' ok$' "$module.verdicts") ok"
done
cat ./*.verdicts
