#include "allocator/api/check.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/heap/pool.h"
#include "allocator/page/size_class.h"
#include "allocator/slices/arena.h"
#include "allocator/slices/mapping_cache.h"
#include "allocator/slices/run.h"
#include "base/panic.h"

bool allocator_check(void) {
    if (!KEEL_CHECKS) return true;
    return size_class_check() && run_check() && mapping_cache_check() && arena_check() &&
           heap_pool_check() && user_heap_check();
}
