/* An allocator that shows whether its data are in a cache: malloc follows a chain through CHAIN
 * lines of its own. The C library's functions are not called. */
#include <stddef.h>
#include <stdint.h>

#include "bridge/bridge.h"

enum { CHAIN = 256, PAGE = 4096 };

/* Each line holds the index of the next one; 97 has no common divisor with CHAIN. */
static struct { _Alignas(64) volatile size_t next; } lines[CHAIN];
static char block[16 * PAGE];

static void version(char* text, size_t size) {
    if (size > 0) text[0] = 0;
}
static void* chain_malloc(size_t size) {
    size_t at = 0;
    for (int step = 0; step < CHAIN; step += 1) at = lines[at].next;
    /* The result depends on the chain, so that the call waits for it. */
    return block + at * 64 % PAGE + size % 1;
}
static void chain_free(void* pointer) {
    (void)pointer;
}
static void* chain_calloc(size_t count, size_t size) {
    return chain_malloc(count * size);
}
static void* chain_realloc(void* pointer, size_t size) {
    (void)pointer;
    return chain_malloc(size);
}
static void* chain_aligned(size_t alignment, size_t size) {
    (void)alignment;
    return chain_malloc(size);
}
static int chain_init(void) {
    for (size_t line = 0; line < CHAIN; line += 1) lines[line].next = (line + 97) % CHAIN;
    return 0;
}

const struct bridge_table keel_peer = {
    .abi = 1,
    .version = version,
    .malloc = chain_malloc,
    .free = chain_free,
    .calloc = chain_calloc,
    .realloc = chain_realloc,
    .aligned = chain_aligned,
    .init = chain_init,
};
