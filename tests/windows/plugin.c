// A DLL that is linked with keel.dll.
#include <stdlib.h>
#include <string.h>

__declspec(dllexport) void* plugin_allocate(size_t size);
__declspec(dllexport) void plugin_free(void* block);
// The function runs when the DLL is unloaded: at the end of a process after Windows has ended all
// other threads.
__declspec(dllexport) void plugin_at_end(void (*run)(void));

void* plugin_allocate(size_t size) {
    void* block = malloc(size);
    if (block != NULL) memset(block, 3, size);
    return block;
}
void plugin_free(void* block) {
    free(block);
}

static void (*run_at_end)(void);
void plugin_at_end(void (*run)(void)) {
    run_at_end = run;
}

static void* kept;
__attribute__((constructor)) static void at_load(void) {
    kept = malloc(5000);
}
__attribute__((destructor)) static void at_unload(void) {
    free(kept);
    if (run_at_end != NULL) run_at_end();
}
