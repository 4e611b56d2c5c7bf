// mismatched ALLOCATION FREE: allocates a block by one function and frees it by another. Without
// arguments, prints the names of all functions with the kind of block that each is for.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>

extern "C" void free_sized(void* block, size_t size);
extern "C" void free_aligned_sized(void* block, size_t alignment, size_t size);

namespace {

constexpr size_t SIZE = 100;
constexpr std::align_val_t ALIGNMENT{64};

const char *const MALLOC = "malloc", *const NEW = "new", *const ARRAY = "new[]",
                  *const ALIGNED = "new-aligned", *const ALIGNED_ARRAY = "new[]-aligned";

struct Allocation {
    const char* name;
    const char* kind;
    void* (*run)();
};
const Allocation allocations[] = {
    {"malloc", MALLOC, [] { return malloc(SIZE); }},
    {"calloc", MALLOC, [] { return calloc(1, SIZE); }},
    {"realloc", MALLOC, [] { return realloc(malloc(10), SIZE); }},
    {"memalign", MALLOC, [] { return memalign(64, SIZE); }},
    {"strdup", MALLOC, [] { return static_cast<void*>(strdup("text")); }},
    {"new", NEW, [] { return operator new(SIZE); }},
    {"new-nothrow", NEW, [] { return operator new(SIZE, std::nothrow); }},
    {"new[]", ARRAY, [] { return operator new[](SIZE); }},
    {"new[]-nothrow", ARRAY, [] { return operator new[](SIZE, std::nothrow); }},
    {"new-aligned", ALIGNED, [] { return operator new(SIZE, ALIGNMENT); }},
    {"new-aligned-nothrow", ALIGNED, [] { return operator new(SIZE, ALIGNMENT, std::nothrow); }},
    {"new[]-aligned", ALIGNED_ARRAY, [] { return operator new[](SIZE, ALIGNMENT); }},
    {"new[]-aligned-nothrow", ALIGNED_ARRAY,
     [] { return operator new[](SIZE, ALIGNMENT, std::nothrow); }},
};

struct Free {
    const char* name;
    const char* kind;
    void (*run)(void*);
};
const Free frees[] = {
    {"free", MALLOC, [](void* p) { free(p); }},
    {"free_sized", MALLOC, [](void* p) { free_sized(p, SIZE); }},
    {"free_aligned_sized", MALLOC, [](void* p) { free_aligned_sized(p, 64, SIZE); }},
    {"resize", MALLOC, [](void* p) { free(realloc(p, SIZE * 2)); }},
    {"reallocarray", MALLOC, [](void* p) { free(reallocarray(p, SIZE, 2)); }},
    {"delete", NEW, [](void* p) { operator delete(p); }},
    {"delete-sized", NEW, [](void* p) { operator delete(p, SIZE); }},
    {"delete-nothrow", NEW, [](void* p) { operator delete(p, std::nothrow); }},
    {"delete[]", ARRAY, [](void* p) { operator delete[](p); }},
    {"delete[]-sized", ARRAY, [](void* p) { operator delete[](p, SIZE); }},
    {"delete[]-nothrow", ARRAY, [](void* p) { operator delete[](p, std::nothrow); }},
    {"delete-aligned", ALIGNED, [](void* p) { operator delete(p, ALIGNMENT); }},
    {"delete-aligned-sized", ALIGNED, [](void* p) { operator delete(p, SIZE, ALIGNMENT); }},
    {"delete-aligned-nothrow", ALIGNED,
     [](void* p) { operator delete(p, ALIGNMENT, std::nothrow); }},
    {"delete[]-aligned", ALIGNED_ARRAY, [](void* p) { operator delete[](p, ALIGNMENT); }},
    {"delete[]-aligned-sized", ALIGNED_ARRAY,
     [](void* p) { operator delete[](p, SIZE, ALIGNMENT); }},
    {"delete[]-aligned-nothrow", ALIGNED_ARRAY,
     [](void* p) { operator delete[](p, ALIGNMENT, std::nothrow); }},
};

} // namespace

int main(int count, char** arguments) {
    void* block = nullptr;
    for (const Allocation& each : allocations) {
        if (count < 3) printf("allocation %s %s\n", each.name, each.kind);
        if (count == 3 && strcmp(each.name, arguments[1]) == 0) block = each.run();
    }
    for (const Free& each : frees) {
        if (count < 3) printf("free %s %s\n", each.name, each.kind);
        if (count == 3 && strcmp(each.name, arguments[2]) == 0) each.run(block);
    }
    return 0;
}
