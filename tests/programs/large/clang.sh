# needs: clang++ clang
# debian: clang g++
# about: clang compiles C++ with -O2 and prints syntax trees and LLVM's text form
# stresses: large blocks that LLVM's own pools cut into pieces
# not shown: small frees: the pools hide most of them
source "$SUPPORT"
templates 60 >large.cpp
plain_functions 900 >large.c
# work:
source "$SUPPORT"
clang++ -std=c++17 -O2 -c large.cpp -o large.o
clang++ large.o -o large
./large
clang++ -std=c++17 -fsyntax-only -Xclang -ast-dump large.cpp | sed 's/0x[0-9a-f]*//g' | grep -c 'CXXMethodDecl'
clang -O3 -S -emit-llvm large.c -o - | sha256sum
clang -O2 -c large.c -o c.o
clang c.o -o c
./c
sha256sum <large.o
