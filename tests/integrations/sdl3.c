// integrations/memory/keel_sdl.h with a stand-in for SDL 3. SDL 3 itself is not tested.
#include "stand_in/SDL3.h"
#include "check.h"
#include "live.h"
//
#include "keel_sdl.h"

TEST(all_blocks_are_in_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    CHECK(keel_sdl_install(heap));
    void* block = stand_in_sdl.realloc(stand_in_sdl.malloc(100), 10000);
    char* zeros = stand_in_sdl.calloc(10, 10);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(zeros[i], 0);
    CHECK(kl_heap_contains(heap, block) && kl_heap_contains(heap, zeros));
    stand_in_sdl.free(block);
    stand_in_sdl.free(zeros);
    CHECK_EQUAL(live_blocks(heap), 0);
}

TEST(it_is_refused_after_sdl_has_allocated) {
    stand_in_sdl.live = 1;
    CHECK(!keel_sdl_install(NULL));
    CHECK(stand_in_sdl.malloc == NULL);
}
