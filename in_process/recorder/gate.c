/* The gate of the embeddable recorder, and what else the rings ask of it. Knows nothing of them. */
#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

#include "host.h"
#include "journal/ring.h"
#include "keel/recorder.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Alignas(KL_PAGE_BYTES) __attribute__((visibility("default"))) struct kl_record_gate kl_record_gate;
static_assert(sizeof kl_record_gate == KL_PAGE_BYTES, "alone on its page");

void host_prepare(void) {
    madvise(&kl_record_gate, sizeof kl_record_gate, MADV_WIPEONFORK);
}

void host_stopped(void) {
    __atomic_store_n(&kl_record_gate.on, 0, __ATOMIC_RELEASE);
}

const char* host_allocator(void) {
    return "the program's own";
}

uint32_t host_embedded(void) {
    return 1;
}
