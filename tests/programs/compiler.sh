# needs: gcc g++
# debian: gcc g++
# about: g++ and gcc compile templates of the standard library and 900 functions
# stresses: many small blocks that live to the end, in short processes
# not shown: frees: a compiler retains most of its memory until it ends
source "$SUPPORT"
templates 45 >large.cpp
plain_functions 900 >large.c
# work:
source "$SUPPORT"
g++ -std=c++17 -O1 -c large.cpp -o large.o
g++ large.o -o large
sha256sum <large.o
./large
gcc -O2 -pipe -c large.c -o c.o
gcc c.o -o c
sha256sum <c.o
./c
