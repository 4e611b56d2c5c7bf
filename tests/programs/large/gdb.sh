# needs: gdb g++
# debian: gdb g++
# about: breakpoints, types and Python over a program with debug information
# stresses: symbol tables: many blocks that live to the end
# not shown: frees under load
source "$SUPPORT"
templates 30 >large.cpp
g++ -std=c++17 -g -O0 large.cpp -o large
# work:
source "$SUPPORT"
cat >commands <<'GDB'
set pagination off
set confirm off
set width 0
set disable-randomization on
break T7::run
run
backtrace 3
info locals
print *this
finish
info functions T1.::run
info types ^T2
ptype T9
break T29::run
continue
python
for i in range(1, 30):
    kind = gdb.lookup_type("T%d" % i)
    print(kind.name, [field.name for field in kind.fields()], kind.sizeof)
print(sum(len(str(gdb.parse_and_eval("%d * 7" % i))) for i in range(3000)))
end
kill
GDB
# The debugged program uses glibc's allocator: Keel's addresses and threads would appear in the
# output.
gdb -q -batch -nx -iex 'set auto-load no' -ex 'set environment LD_PRELOAD' -ex 'set startup-with-shell off' -x commands ./large 2>&1 \
    | sed "/^s = /d; s|$PWD||; s/process [0-9]*//; s/0x[0-9a-f]*/ADDRESS/g" >text
wc -l <text
sha256sum <text
grep -c 'vector' text
