// The gate of the embedded recorder, and the functions of host.h. This file does not depend on the
// rings.
#include "base/atomic.h"
#include "host.h"
#include "journal/ring.h"
#include "keel/recorder.h"
#include "system.h"
#include <assert.h>
#include <stdint.h>

KEEL_ALIGNED(KL_PAGE_BYTES) KEEL_EXPORT struct kl_record_gate kl_record_gate;
static_assert(sizeof kl_record_gate == KL_PAGE_BYTES, "the gate fills its page");

void host_prepare(void) {
    system_wipe_on_fork(&kl_record_gate, sizeof kl_record_gate);
}

void host_stopped(void) {
    atomic_set_release((atomic_state*)&kl_record_gate.on, 0);
}

void host_patch(const char* folder, uint64_t count) {
    (void)folder;
    (void)count;
}

const char* host_allocator(void) {
    return "the program's own";
}

const char* host_other_allocator(void) {
    return "";
}

void host_look(void) {}

uint32_t host_embedded(void) {
    return 1;
}

bool host_notices_unloading(void) {
    return false;
}
