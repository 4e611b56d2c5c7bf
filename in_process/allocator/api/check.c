#include "allocator/api/check.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/heap/pool.h"
#include "allocator/page/size_class.h"
#include "allocator/space/arena.h"
#include "allocator/space/run.h"
#include "allocator/warm/mapping_cache.h"
#include "base/panic.h"

bool allocator_check(void) {
    if (!KEEL_CHECKS) return true;
    return size_class_check() && run_check() && mapping_cache_check() && arena_check() &&
           heap_pool_check() && user_heap_check();
}
