# needs: gcc g++
source "$SUPPORT"
{
    printf '#include <algorithm>\n#include <iostream>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n#include <vector>\n'
    printf 'template <int N> struct Chain { static long sum(long x) { return Chain<N - 1>::sum(x * 31 + N); } };\n'
    printf 'template <> struct Chain<0> { static long sum(long x) { return x; } };\n'
    for i in $(seq 1 45); do
        printf 'struct T%d { std::map<std::string, std::vector<long>> m; long v = %d;\n' "$i" "$i"
        printf '  long run() { for (int i = 0; i < 50; i++) m["k" + std::to_string(i %% %d)].push_back(i * v);\n' $((i % 13 + 2))
        printf '    long s = 0; for (auto& [k, l] : m) { std::sort(l.rbegin(), l.rend()); s += l.front() + (long)k.size(); }\n'
        printf '    return s + Chain<%d>::sum(s); } };\n' $((i + 20))
    done
    printf 'int main() { long total = 0;\n'
    for i in $(seq 1 45); do printf '  total += std::make_unique<T%d>()->run();\n' "$i"; done
    printf '  std::cout << total << " " << std::regex_replace(std::string("a1b22c333"), std::regex("[0-9]+"), "#") << "\\n"; }\n'
} >large.cpp
g++ -std=c++17 -O1 -c large.cpp -o large.o
g++ large.o -o large
sha256sum <large.o
./large
{
    for i in $(seq 1 900); do
        printf 'static int f%d(int x) { switch (x %% 7) { case 0: return x * %d; case 1: return x ^ %d; default: return x + %d; } }\n' \
            "$i" "$i" $((i * 7)) $((i * 3))
    done
    printf '#include <stdio.h>\nint main(void) { unsigned s = 0;\n'
    for i in $(seq 1 900); do printf 's += (unsigned)f%d((int)(s & 255));\n' "$i"; done
    printf 'printf("%%u\\n", s); return 0; }\n'
} >large.c
gcc -O2 -pipe -c large.c -o c.o
gcc c.o -o c
sha256sum <c.o
./c
