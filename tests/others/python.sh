#!/usr/bin/env bash
# CPython's own tests from Debian's package: python.sh - PLACE. With PYTHONMALLOC=malloc each object
# is a block of malloc. A module is one test here; the result of each of its tests is compared.
#
# Left out are the modules that need the network, a display or many minutes, and those that allocate
# little: encodings, protocols and the tools.
set -uo pipefail
place=$2 python=/usr/bin/python3
tests=$("$python" -c 'import test.test_threading as t; print(t.__file__)' 2>/dev/null) ||
    { echo "the package libpython3-testsuite is not installed"; exit 1; }
slow='asyncio|multiprocessing.*|concurrent_futures|tools|idle|tk|ttk.*|tcl|turtle|ssl'
slow+='|socket.*|urllib.*|smtp.*|ftplib|poplib|imaplib|nntplib|telnetlib|http.*|xmlrpc.*'
slow+='|docxmlrpc|robotparser|codecmaps_.*|codecencodings_.*|multibytecodec|ensurepip|venv'
slow+='|distutils|lib2to3|gdb|curses|ossaudiodev|winreg|winsound|winconsoleio|msilib'
slow+='|startfile|devpoll|kqueue|zipfile64|largefile|peg_generator|unparse|tokenize|cprofile'
slow+='|profile|regrtest|trace|select.*|asyn.*|signal|wait3|wait4|eintr|faulthandler'
slow+='|subprocess|pydoc|doctest.*|email|zoneinfo|decimal|statistics|imp|import.*|compileall'
slow+='|zipapp|unicodedata|ucn|tarfile|zipfile|pickletools|random|timeout'
for file in "$(dirname "$tests")"/test_*; do
    [[ -d $file || $file == *.py ]] || continue
    name=$(basename "$file" .py)
    if [[ ${name#test_} =~ ^($slow)$ ]]; then
        echo "$name" >>"$place/left-out"
        continue
    fi
    # Tests with several threads mix their lines; only complete results are compared.
    cat >"$place/tests/$name" <<TEST
#!/bin/bash
PYTHONMALLOC=malloc PYTHONHASHSEED=1 timeout -k 5 240 "$python" -m test -v $name >log 2>&1
status=\$?
ends='ok\|FAIL\|ERROR\|skipped\|expected failure'
sed -n "s/^\(test[A-Za-z0-9_]* ([A-Za-z0-9_.]*)\) \.\.\. \(\$ends\).*/verdict: \1 \2/p" log
tail -n 15 log >&2
exit \$status
TEST
    chmod +x "$place/tests/$name"
done
