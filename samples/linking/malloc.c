/* Checks that the malloc of this program is Keel's, also for libc's own allocations. Exits with 1
 * if not. */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(bool holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    failures++;
}

int main(void) {
    char* block = malloc(100);
    char* text = strdup("allocated inside libc");
    void* aligned = aligned_alloc(256, 1000);
    expect(kl_contains(block), "malloc is not Keel's");
    expect(kl_contains(text), "what libc calls is not Keel's malloc");
    expect(kl_contains(aligned), "aligned_alloc is not Keel's");
    expect(kl_usable_size(block) >= 100, "the block is too small");
    /* Both names use the same heap. */
    kl_free(block);
    free(kl_malloc(100));
    free(text);
    free(aligned);
    int version = KEEL_VERSION_MAJOR * 10000 + KEEL_VERSION_MINOR * 100 + KEEL_VERSION_PATCH;
    expect(kl_version() == version, "the library and its header are of different versions");
    if (failures == 0) puts("malloc is Keel's");
    return failures != 0;
}
