# needs: cppcheck
# debian: cppcheck
# about: static analysis of C and C++ in two processes
# stresses: very many small blocks: tokens, strings and lists
# not shown: threads: there are none
source "$SUPPORT"
templates 150 >large.cpp
plain_functions 900 >large.c
printf 'int main(void) { int a[3]; int *p = 0; a[3] = 1; return *p; }\n' >wrong.c
# work:
source "$SUPPORT"
cppcheck --enable=all --inconclusive --max-configs=2 -q large.cpp large.c wrong.c 2>&1 | sort | sha256sum
cppcheck -j 2 -q --enable=warning large.cpp large.c wrong.c 2>&1 | grep -c error
cppcheck --dump -q large.cpp
sed 's/"[0-9a-fx]\{8,\}"/"A"/g' large.cpp.dump | wc -l
