// A malloc that calls another function by name: a preloaded recorder sees both calls.
#include <malloc.h>
void* malloc(size_t size) {
    return memalign(16, size);
}
