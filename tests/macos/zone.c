// override/macos/zone.c on a model of macOS (system.c).
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <malloc/malloc.h>
#undef free
#undef realloc
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct replacement {
    void* by;
    void* function;
};
extern const struct replacement __start_keel_interpose[], __stop_keel_interpose[];

static malloc_zone_t* zone_at(unsigned at) {
    vm_address_t* zones;
    unsigned count;
    CHECK(malloc_get_all_zones(0, NULL, &zones, &count) == KERN_SUCCESS && at < count);
    return (malloc_zone_t*)zones[at];
}

// What the loader calls in place of the function.
static void* replaced(void* function) {
    for (const struct replacement* row = __start_keel_interpose; row < __stop_keel_interpose; row++)
        if (row->function == function) return row->by;
    return NULL;
}
#define CALL(name) ((__typeof__(&(name)))replaced((void*)(name)))

TEST(keel_is_the_first_zone_and_the_purgeable_zone_the_last) {
    CHECK(strcmp(zone_at(0)->zone_name, "KeelZone") == 0);
    CHECK(strcmp(zone_at(1)->zone_name, "DefaultMallocZone") == 0);
    CHECK(strcmp(zone_at(2)->zone_name, "DefaultPurgeableMallocZone") == 0);
    CHECK(zone_at(0)->version >= 9 && zone_at(0)->introspect->reinit_lock != NULL);
}

TEST(every_function_of_the_family_is_replaced) {
    void* functions[] = {(void*)malloc,          (void*)calloc,   (void*)free,
                         (void*)realloc,         (void*)reallocf, (void*)aligned_alloc,
                         (void*)posix_memalign,  (void*)valloc,   (void*)malloc_size,
                         (void*)malloc_good_size};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        CHECK_WITH(replaced(functions[i]) != NULL, "%zu", i);
    CHECK_EQUAL(__stop_keel_interpose - __start_keel_interpose,
                sizeof functions / sizeof *functions);
}

TEST(the_replacements_are_keels) {
    void* block = CALL(malloc)(100);
    CHECK(kl_contains(block) && CALL(malloc_size)(block) == kl_usable_size(block));
    memset(block, 7, 100);
    CHECK((block = CALL(realloc)(block, 5000)) != NULL && ((char*)block)[99] == 7);
    CHECK((block = CALL(reallocf)(block, 70000)) != NULL && ((char*)block)[99] == 7);
    CALL(free)(block);
    block = CALL(calloc)(100, 100);
    CHECK(kl_contains(block) && is_zero(block, 10000));
    CALL(free)(block);
    CHECK(kl_contains(block = CALL(aligned_alloc)(4096, 100)) && is_aligned(block, 4096));
    CALL(free)(block);
    CHECK(is_aligned(block = CALL(valloc)(1), (size_t)sysconf(_SC_PAGESIZE)));
    CALL(free)(block);
    CHECK(CALL(posix_memalign)(&block, 64, 1000) == 0 && is_aligned(block, 64));
    CALL(free)(block);
    CHECK(CALL(posix_memalign)(&block, 3, 1000) == EINVAL);
    CHECK_EQUAL(CALL(malloc_good_size)(1000), kl_good_size(1000));
    CALL(free)(NULL);
    CHECK_EQUAL(system_frees, 0);
}

TEST(blocks_of_the_system_go_back_to_it) {
    malloc_zone_t *keel = zone_at(0), *usual = zone_at(1);
    char* blocks[4];
    for (size_t i = 0; i < 4; i++) strcpy(blocks[i] = usual->malloc(usual, 100), "kept");
    CHECK(keel->size(keel, blocks[0]) == 0);
    CHECK(CALL(malloc_size)(blocks[0]) >= 100);
    CHECK((blocks[1] = CALL(realloc)(blocks[1], 5000)) != NULL && !kl_contains(blocks[1]));
    CHECK((blocks[2] = keel->realloc(keel, blocks[2], 5000)) != NULL);
    CHECK((blocks[3] = CALL(reallocf)(blocks[3], 5000)) != NULL);
    for (size_t i = 0; i < 4; i++) CHECK(strcmp(blocks[i], "kept") == 0);
    CHECK(system_frees == 3 && system_live == 4);
    CALL(free)(blocks[0]);
    CALL(free)(blocks[1]);
    keel->free(keel, blocks[2]);
    keel->free_definite_size(keel, blocks[3], 5000);
    CHECK(system_frees == 7 && system_live == 0);
    system_free(keel->malloc(keel, 10)); // and the system finds Keel's
    CHECK_EQUAL(system_frees, 7);
}

TEST(the_zone_allocates) {
    malloc_zone_t* keel = zone_at(0);
    char on_stack[16];
    CHECK_EQUAL(keel->size(keel, on_stack), 0);
    CHECK_EQUAL(keel->size(keel, NULL), 0);
    void* block = keel->malloc(keel, 33);
    CHECK(keel->size(keel, block) == kl_usable_size(block));
    memset(block, 5, 33);
    CHECK((block = keel->realloc(keel, block, 90)) != NULL && ((char*)block)[32] == 5);
    keel->free_definite_size(keel, block, 90);
    CHECK(is_zero(block = keel->calloc(keel, 1000, 9), 9000));
    keel->free(keel, block);
    CHECK(keel->calloc(keel, SIZE_MAX / 2, 3) == NULL);
    CHECK(is_aligned(block = keel->memalign(keel, 65536, 10), 65536));
    keel->free(keel, block);
    CHECK(is_aligned(block = keel->valloc(keel, 10), (size_t)sysconf(_SC_PAGESIZE)));
    keel->free(keel, block);
    keel->destroy(keel);
    CHECK(keel->malloc(keel, 10) != NULL);
}

TEST(the_system_may_write_protect_the_zone) {
    malloc_zone_t* keel = zone_at(0);
    CHECK(is_aligned(keel, 16384));
    CHECK(mprotect(keel, 16384, PROT_READ) == 0);
    for (size_t i = 0; i < 1000; i++) keel->free(keel, keel->malloc(keel, i * 100));
    keel->pressure_relief(keel, 0);
}

TEST(the_zone_states_its_figures) {
    malloc_zone_t* keel = zone_at(0);
    malloc_statistics_t before, now;
    static void* blocks[3000];
    keel->introspect->statistics(keel, &before);
    for (size_t i = 0; i < 3000; i++) CHECK((blocks[i] = keel->malloc(keel, 10000)) != NULL);
    for (size_t i = 0; i < 3000; i++) memset(blocks[i], 1, 10000);
    keel->introspect->statistics(keel, &now);
    CHECK_EQUAL(now.blocks_in_use - before.blocks_in_use, 3000);
    CHECK(now.size_in_use - before.size_in_use >= 30000000 &&
          now.size_allocated >= now.size_in_use);
    for (size_t i = 0; i < 3000; i++) keel->free(keel, blocks[i]);
    CHECK(keel->pressure_relief(keel, 0) >= 20000000);
    CHECK(keel->introspect->good_size(keel, 100) >= 100 && keel->introspect->check(keel));
    CHECK(keel->introspect->enumerator(0, NULL, 1, 0, NULL, NULL) != KERN_SUCCESS);
}

static atomic_bool stop;
static void* allocates(void* zone) {
    malloc_zone_t* keel = zone;
    for (size_t i = 0; !stop; i++) {
        void* block = keel->malloc(keel, i * 67 % 200000);
        CHECK(block != NULL);
        keel->free(keel, block);
    }
    return NULL;
}

TEST(a_fork_locks_and_unlocks_the_zone) {
    malloc_zone_t* keel = zone_at(0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, allocates, keel) == 0);
    for (int round = 0; round < 30; round++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(!keel->introspect->zone_locked(keel));
            for (size_t i = 0; i < 300; i++) CHECK(keel->malloc(keel, i * 1000) != NULL);
            _exit(0);
        }
        CHECK(!keel->introspect->zone_locked(keel));
        CHECK_CHILD(child);
    }
    keel->introspect->force_lock(keel); // as a tool does
    CHECK(keel->introspect->zone_locked(keel));
    CHECK(keel->malloc(keel, 5000000) != NULL);
    keel->introspect->force_unlock(keel);
    CHECK(!keel->introspect->zone_locked(keel));
    stop = true;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}
