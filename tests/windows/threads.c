// Threads that end, fibers, and DLLs that come and go.
#include "check.h"
#include "memory.h"
#include <keel/keel.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 500 };

static HANDLE start(LPTHREAD_START_ROUTINE run, void* argument) {
    HANDLE thread = CreateThread(NULL, 0, run, argument, 0, NULL);
    CHECK(thread != NULL);
    return thread;
}
static void join(HANDLE thread) {
    CHECK(WaitForSingleObject(thread, INFINITE) == WAIT_OBJECT_0);
    CHECK(CloseHandle(thread));
}

// ---- ends of threads ----

struct gift {
    char* blocks[BLOCKS];
    struct random random;
};

static DWORD WINAPI gives(void* argument) {
    struct gift* gift = argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 1 + random_below(&gift->random, 3000);
        gift->blocks[i] = malloc(size + sizeof size);
        memcpy(gift->blocks[i], &size, sizeof size);
        memset(gift->blocks[i] + sizeof size, (int)i, size);
    }
    return 0;
}
static void take(struct gift* gift) {
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size;
        memcpy(&size, gift->blocks[i], sizeof size);
        for (size_t at = 0; at < size; at++) CHECK(gift->blocks[i][sizeof size + at] == (char)i);
        free(gift->blocks[i]);
    }
}

TEST(blocks_outlive_their_thread_and_its_heap_is_used_again) {
    static struct gift gift = {.random = {1}};
    size_t early = 0;
    for (int round = 0; round < 600; round++) {
        join(start(gives, &gift));
        take(&gift);
        if (round == 50) early = resident_bytes();
    }
    CHECK_WITH(resident_bytes() < early + 4u * MIB, "%zu KiB, after 50 threads %zu",
               resident_bytes() / KIB, early / KIB);
}

static DWORD WINAPI gives_many_times(void* argument) {
    for (int i = 0; i < 20; i++) {
        gives(argument);
        take(argument);
    }
    return gives(argument);
}

TEST(threads_end_while_others_free_their_blocks) {
    enum { THREADS = 8 };
    static struct gift gifts[2][THREADS];
    HANDLE threads[THREADS];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < THREADS; i++) {
            gifts[round % 2][i].random.state = (uint64_t)(round * THREADS + i);
            threads[i] = start(gives_many_times, &gifts[round % 2][i]);
        }
        if (round > 0)
            for (int i = 0; i < THREADS; i++) take(&gifts[(round + 1) % 2][i]);
        for (int i = 0; i < THREADS; i++) join(threads[i]);
    }
}

// ---- fibers ----

static void* main_fiber;
struct fiber {
    void* fiber;
    void* back;
    struct gift gift;
};

static void WINAPI fiber_main(void* argument) {
    struct fiber* fiber = argument;
    for (;;) {
        gives(&fiber->gift);
        SwitchToFiber(fiber->back);
        take(&fiber->gift);
        SwitchToFiber(fiber->back);
    }
}
static void resume(struct fiber* fiber, void* back) {
    fiber->back = back;
    SwitchToFiber(fiber->fiber);
}

static DWORD WINAPI resumes(void* argument) {
    struct fiber* fibers = argument;
    void* own = ConvertThreadToFiber(NULL);
    for (int i = 0; i < 10; i++) resume(&fibers[i], own);
    CHECK(ConvertFiberToThread());
    return 0;
}

TEST(fibers_allocate_and_free_on_several_threads) {
    enum { FIBERS = 10 };
    static struct fiber fibers[FIBERS];
    main_fiber = ConvertThreadToFiber(NULL);
    CHECK(main_fiber != NULL);
    for (int i = 0; i < FIBERS; i++) {
        fibers[i].gift.random.state = (uint64_t)i;
        fibers[i].fiber = CreateFiber(0, fiber_main, &fibers[i]);
        CHECK(fibers[i].fiber != NULL);
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < FIBERS; i++) resume(&fibers[i], main_fiber); // allocate here
        join(start(resumes, fibers));                                    // free there
        join(start(resumes, fibers));                                    // allocate there
        for (int i = 0; i < FIBERS; i++) resume(&fibers[i], main_fiber); // free here
    }
    // A fiber that ends takes nothing of this thread's heap with it.
    char* kept = malloc(100);
    memset(kept, 9, 100);
    for (int i = 0; i < FIBERS; i++) DeleteFiber(fibers[i].fiber);
    for (int i = 0; i < 100; i++) CHECK(kept[i] == 9);
    free(kept);
    gives(&fibers[0].gift);
    take(&fibers[0].gift);
}

// ---- DLLs ----

static void* function_of(HMODULE module, const char* name) {
    void* function = (void*)GetProcAddress(module, name);
    CHECK_WITH(function != NULL, "%s", name);
    return function;
}

TEST(a_dll_is_loaded_and_unloaded_100_times) {
    static void* blocks[100];
    size_t early = 0;
    for (int i = 0; i < 100; i++) {
        HMODULE module = LoadLibraryA("windows-plugin.dll");
        CHECK_WITH(module != NULL, "round %d, error %lu", i, GetLastError());
        void* (*allocate)(size_t) = function_of(module, "plugin_allocate");
        void (*release)(void*) = function_of(module, "plugin_free");
        blocks[i] = allocate(3000);
        CHECK(kl_contains(blocks[i]));
        release(malloc(100));
        CHECK(FreeLibrary(module));
        CHECK(GetModuleHandleA("windows-plugin.dll") == NULL);
        if (i == 10) early = map_count();
    }
    CHECK_WITH(map_count() <= early + 4, "%zu, after 10 loads %zu", map_count(), early);
    for (int i = 0; i < 100; i++) {
        for (int at = 0; at < 3000; at++) CHECK(((char*)blocks[i])[at] == 3);
        free(blocks[i]);
    }
}
