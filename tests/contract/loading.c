/* Calls before and after main, libraries that are loaded and unloaded, and blocks that the C
 * library allocates. */
#include "check.h"
#include "memory.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subject.h"

// ---- before any constructor ----
//
// glibc calls these functions before the constructors of the libraries, and so before the
// allocator's constructors.

static char *early_block, *early_grown;
static bool early_went_well;

static void allocate_early(void) {
    early_block = malloc(1000);
    char* freed = malloc(300);
    char* zeros = calloc(10, 33);
    early_grown = realloc(malloc(10), 100000);
    early_went_well = early_block && freed && early_grown && zeros && is_zero(zeros, 330);
    if (!early_went_well) return;
    pattern_fill(early_block, 1000, 1);
    pattern_fill(early_grown, 100000, 2);
    free(freed);
    free(zeros);
    free(NULL);
}

CHECK_AT_START(allocate_early);

TEST(blocks_from_before_all_constructors_are_ordinary_blocks) {
    CHECK(early_went_well);
    CHECK(pattern_holds(early_block, 1000, 1000, 1));
    CHECK(pattern_holds(early_grown, 100000, 100000, 2));
    CHECK((early_block = realloc(early_block, 5000)) != NULL);
    CHECK(pattern_holds(early_block, 1000, 1000, 1));
    free(early_block);
    free(early_grown);
}

// ---- after main ----

static char* late_block;

static void free_late(void) {
    if (!pattern_holds(late_block, 2000, 2000, 3)) _exit(3);
    free(late_block);
    late_block = malloc(100);
    if (!late_block) _exit(4);
}

__attribute__((destructor)) static void free_even_later(void) {
    free(late_block);
    late_block = NULL;
    free(malloc(70000));
}

TEST(exit_handlers_and_destructors_allocate_and_free) {
    pid_t child = fork();
    if (child == 0) {
        late_block = malloc(2000);
        pattern_fill(late_block, 2000, 3);
        atexit(free_late);
        exit(0);
    }
    CHECK_CHILD(child);
}

static void* exit_from_a_thread(void* argument) {
    (void)argument;
    late_block = malloc(2000);
    pattern_fill(late_block, 2000, 3);
    atexit(free_late);
    exit(0);
}

static void* allocate_forever(void* argument) {
    for (;;) free(malloc((uintptr_t)argument));
    return NULL;
}

TEST(exit_from_a_thread_while_others_allocate) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[3];
            for (uintptr_t k = 0; k < 3; k++)
                pthread_create(&threads[k], NULL, allocate_forever, (void*)(100 + 50000 * k));
            sleep_ms(2);
            pthread_create(&threads[0], NULL, exit_from_a_thread, NULL);
            for (;;) pause();
        }
        CHECK_CHILD(child);
    }
}

// ---- plugins ----

#if !SUBJECT_API // the plugin calls the process's malloc
typedef char* make_function(size_t size);

static void* open_plugin(void) {
    void* plugin = dlopen(KEEL_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) check_fail(__FILE__, __LINE__, "%s", dlerror());
    return plugin;
}

static char* make_in_plugin(void* plugin, size_t size) {
    make_function* make = NULL;
    *(void**)&make = dlsym(plugin, "plugin_make");
    CHECK(make != NULL);
    return make(size);
}

TEST(blocks_outlive_the_plugin_that_allocated_them) {
    for (int i = 0; i < 200; i++) {
        void* plugin = open_plugin();
        char *small = make_in_plugin(plugin, 100), *large = make_in_plugin(plugin, 300000);
        CHECK(dlclose(plugin) == 0);
        CHECK(pattern_holds(small, 100, 100, 100));
        CHECK(pattern_holds(large, 300000, 300000, 300000));
        free(small);
        CHECK((large = realloc(large, 10)) != NULL);
        free(large);
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

static void* use_plugin(void* plugin) {
    return make_in_plugin(
        plugin, 500); // also leaves a block in a thread-local of the plugin that has a destructor
}

TEST(threads_end_while_a_plugins_thread_locals_hold_blocks) {
    for (int i = 0; i < 100; i++) {
        pthread_t threads[3];
        void *plugin = open_plugin(), *made;
        for (int k = 0; k < 3; k++)
            CHECK(pthread_create(&threads[k], NULL, use_plugin, plugin) == 0);
        for (int k = 0; k < 3; k++) {
            CHECK(pthread_join(threads[k], &made) == 0);
            CHECK(pattern_holds(made, 500, 500, 500));
            free(made);
        }
        CHECK(dlclose(plugin) == 0);
    }
}
#endif

// ---- blocks that the C library allocates ----

#if !SUBJECT_API // the C library allocates from the process's malloc
TEST(blocks_allocated_by_the_c_library_can_be_freed_and_resized) {
    char *line = NULL, *text = NULL, *memory = NULL, *grown;
    size_t line_size = 0, memory_size = 0;
    for (int i = 0; i < 300; i++) {
        CHECK((grown = realloc(strdup("a string"), 5000)) != NULL &&
              strcmp(grown, "a string") == 0);
        free(grown);
        CHECK(asprintf(&text, "%d %0500d", i, i) > 500);
        free(text);
        free(realpath("/proc/self/exe", NULL));
        free(getcwd(NULL, 0));
        FILE* file = open_memstream(&memory, &memory_size);
        CHECK(file != NULL);
        for (int k = 0; k < 300; k++) fprintf(file, "line %d\n", k);
        fclose(file);
        CHECK_WITH(memory_size > 2000 && memcmp(memory, "line 0\nline 1\n", 14) == 0, "%zu",
                   memory_size);
        free(memory);
        CHECK((file = fopen("/proc/self/maps", "r")) != NULL);
        while (getline(&line, &line_size, file) > 0) CHECK(malloc_usable_size(line) >= line_size);
        fclose(file);
    }
    free(line);
}

TEST(directories_and_the_environment_use_the_same_malloc) {
    struct dirent** names = NULL;
    int count = scandir("/proc/self", &names, NULL, alphasort);
    CHECK(count > 10);
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
    for (int i = 0; i < 2000; i++) {
        char name[32], value[200];
        snprintf(name, sizeof name, "KEEL_TEST_%d", i % 500);
        memset(value, 'x', sizeof value - 1);
        value[i % 150] = 0;
        value[sizeof value - 1] = 0;
        CHECK(setenv(name, value, 1) == 0);
        CHECK(strlen(getenv(name)) == (size_t)(i % 150));
    }
}

#if defined(__GLIBC__)
TEST(the_c_librarys_extensions_can_be_called) {
    void* p = malloc(100000);
    malloc_trim(0);
#if __GLIBC_PREREQ(2, 33)
    (void)mallinfo2();
#endif
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 0 || 1); // 0 or 1, but no crash
    free(p);
}
#endif
#endif
