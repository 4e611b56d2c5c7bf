// keel.dll in a program that is not linked with it.
#include "check.h"
#include "memory.h"
#include <string.h>

static HANDLE loaded;
static void* (*allocate)(size_t);
static void (*release)(void*);

static void find(HMODULE module) {
    *(FARPROC*)&allocate = GetProcAddress(module, "kl_malloc");
    *(FARPROC*)&release = GetProcAddress(module, "kl_free");
    CHECK(allocate != NULL && release != NULL);
}

TEST(keel_is_loaded_and_unloaded_100_times) {
    static void* blocks[100];
    size_t early = 0;
    for (int i = 0; i < 100; i++) {
        HMODULE module = LoadLibraryA("keel.dll");
        CHECK_WITH(module != NULL, "error %lu", GetLastError());
        find(module);
        blocks[i] = allocate(3000);
        memset(blocks[i], i, 3000);
        CHECK(FreeLibrary(module));
        if (i == 10) early = map_count();
    }
    CHECK_WITH(map_count() <= early + 2, "%zu, after 10 loads %zu", map_count(), early);
    for (int i = 0; i < 100; i++) {
        CHECK(((char*)blocks[i])[2999] == (char)i);
        release(blocks[i]);
    }
}

static DWORD WINAPI waits_and_allocates(void* argument) {
    CHECK(WaitForSingleObject(loaded, INFINITE) == WAIT_OBJECT_0);
    for (int i = 0; i < 10000; i++) {
        char* block = allocate(100);
        memset(block, 1, 100);
        release(block);
    }
    *(void**)argument = allocate(200);
    return 0;
}

TEST(a_thread_that_is_older_than_keel_allocates) {
    void* block = NULL;
    loaded = CreateEventA(NULL, TRUE, FALSE, NULL);
    HANDLE thread = CreateThread(NULL, 0, waits_and_allocates, &block, 0, NULL);
    Sleep(50);
    find(LoadLibraryA("keel.dll"));
    CHECK(SetEvent(loaded));
    CHECK(WaitForSingleObject(thread, INFINITE) == WAIT_OBJECT_0);
    CHECK(block != NULL);
    release(block);
}
