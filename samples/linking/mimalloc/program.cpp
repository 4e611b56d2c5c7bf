// A program written for mimalloc, in C++.
#include <cstdio>
#include <map>
#include <mimalloc-new-delete.h>
#include <mimalloc.h>
#include <string>
#include <vector>

int main() {
    std::vector<std::string, mi_stl_allocator<std::string>> words(1000, std::string(100, 'x'));
    std::map<int, int> map; // by operator new
    for (int i = 0; i < 1000; i++) map[i] = i;
    bool well = mi_is_in_heap_region(words.data()) && mi_is_in_heap_region(words[7].data()) &&
                mi_is_in_heap_region(&map[7]);
    std::puts(well ? "mimalloc's names are Keel's" : "something differs from mimalloc");
    return !well;
}
