// space/arena.c: a thread that looks for an address never finds it in an arena that does not
// contain it, while another arena takes the place of one that ends; and each arena's own memory
// is unmapped.
#include "allocator/space/arena.h"
#include "explore.h"
#include "os/memory.h"

#define SMALL ((size_t)2 * SLICE_BYTES)
#define LARGE ((size_t)16 * SLICE_BYTES)

static char* mapping[3]; // the second one is no arena
static const size_t bytes[3] = {SMALL, LARGE, LARGE};
static struct arena* first;

static struct arena* add(unsigned which) {
    struct arena_memory memory = {
        .start = mapping[which], .bytes = bytes[which], .node = ARENA_ANY_NODE, .mapped = true};
    struct arena* arena = NULL;
    EXPLORE_CHECK(arena_add(&memory, &arena) == ARENA_OK);
    return arena;
}

static void prepare(void) {
    for (unsigned i = 0; i < 3; i++) {
        mapping[i] = os_map(bytes[i], SLICE_BYTES);
        EXPLORE_CHECK(mapping[i] != NULL);
    }
    first = add(0);
}

static void replace(void) {
    EXPLORE_CHECK(arena_remove(first));
    struct arena* second = add(2);
    EXPLORE_CHECK(arena_find(mapping[2]) == second);
}
// As for a block behind the first arena that is freed.
static void look_behind(void) {
    EXPLORE_CHECK(arena_find(mapping[1]) == NULL);
}
// The explorer fails if a mapping is unmapped with another one's length.
static void remove_first(void) {
    EXPLORE_CHECK(arena_remove(first));
}
static void add_large(void) {
    (void)add(2);
}

static void check(void) {
    EXPLORE_CHECK(arena_check() && arena_find(mapping[0]) == NULL);
}

static const struct explore_scenario finds = {
    .name = "arenas, one looks behind an arena while another one takes its place",
    .threads = 2,
    .called = {"looks", "replaces"},
    .prepare = prepare,
    .run = {look_behind, replace},
    .check = check,
    .preemptions = 2,
    .weak = 1,
};
static const struct explore_scenario removes = {
    .name = "arenas, one ends while another thread adds one",
    .threads = 2,
    .called = {"removes", "adds"},
    .prepare = prepare,
    .run = {remove_first, add_large},
    .check = check,
    .preemptions = 2,
    .weak = 1,
};

TEST(arenas_looked_for_and_replaced) {
    explore_holds(&finds);
}
TEST(arenas_removed_and_added) {
    explore_holds(&removes);
}
