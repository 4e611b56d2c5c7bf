# needs: perl
# sources: perl-5.*/t/harness
# debian: perl perl-modules-5.36
# measured: no
# The interpreter's own tests, run by Debian's perl: the result of each file must be the same with
# and without Keel.
cp -a "$KEEL_SOURCES"/perl-5.*/t t
cp -a "$KEEL_SOURCES"/perl-5.*/lib lib
for folder in $(perl -e 'print join " ", grep m{^/usr/(share|lib/[^/]+)/perl(-base|/[\d.]+)$}, @INC'); do
    cp -rLf "$folder"/. lib # the modules as they are when they are built
done
ln -s "$(command -v perl)" perl
ln -sf ../perl t/perl
# These need files that only a built tree has, or measure time.
rm -f t/op/goto_xs.t t/re/uniprops*.t t/op/alarm.t t/op/sleep.t t/op/time.t t/op/time_loop.t
# work:
source "$SUPPORT"
cd t
PERL_CORE=1 TEST_JOBS=1 ./perl harness {base,comp,cmd,opbasic,op,mro,uni,lib}/*.t re/[a-o]*.t \
    re/{pat,qr,re_tests,reg,subst}*.t ../lib/*.t >../log 2>/dev/null || true
# The number of tests in a file may vary; its result and the tests that failed must not.
sed -n 's/^\([^ ]*\.t\) \.\.* \(.*\)$/\1 \2/p; /^Test Summary/,/^Files=/{/^Files=/!p}' ../log
