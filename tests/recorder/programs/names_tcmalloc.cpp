// TCMalloc's own functions.
// expect: +1001 +1002 -1001 +1003 -1002 +1004 +1005 +1006 +1007 -1003 -1004 -1005 -1006 -1007
// expect: +1008 -1008
// kinds: aligned=3 free_aligned_sized=2 free_sized=1
#include <cstdlib>
#include <new>

extern "C" {
void* tc_malloc(size_t size);
void* tc_calloc(size_t count, size_t size);
void* tc_realloc(void* block, size_t size);
void* tc_memalign(size_t align, size_t size);
int tc_posix_memalign(void** block, size_t align, size_t size);
void* tc_new(size_t size);
void* tc_newarray_aligned(size_t size, size_t align);
void tc_free(void* block);
void tc_free_sized(void* block, size_t size);
void tc_delete_sized_aligned(void* block, size_t size, size_t align);
void tc_deletearray_sized_aligned(void* block, size_t size, size_t align);
}

int main() {
    void* first = tc_malloc(1001);
    void* second = tc_calloc(2, 501);
    void* third = tc_realloc(first, 1003);
    tc_free(second);
    void* fourth = tc_memalign(64, 1004);
    void* fifth = tc_new(1005);
    void* sixth = nullptr;
    if (tc_posix_memalign(&sixth, 64, 1006) != 0) return 1;
    void* seventh = tc_newarray_aligned(1007, 64);
    tc_free_sized(third, 1003);
    tc_delete_sized_aligned(fourth, 1004, 64);
    std::free(fifth);
    tc_free(sixth);
    tc_deletearray_sized_aligned(seventh, 1007, 64);
    // An exception passes through the recorder.
    try {
        tc_new(size_t(1) << 60);
        return 2;
    } catch (const std::bad_alloc&) {
    }
    tc_free(tc_realloc(nullptr, 1008));
    return 0;
}
