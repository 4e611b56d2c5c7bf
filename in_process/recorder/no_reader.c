// What only a session of `keel record` needs (session.h, sampled.h, origin.h), on systems without
// it: a recording from inside has no reader, no samples and no call stacks.
#include "origin.h"
#include "sampled.h"
#include "session.h"

void session_start(void) {
    atomic_set_release(&session_page.state, SESSION_OFF);
}

void session_ring_bell(void) {}

enum kl_stop session_must_stop(uint64_t* heartbeat, uint64_t* silent_since_ns) {
    (void)heartbeat, (void)silent_since_ns;
    return KL_STOP_NONE;
}

void session_wait(_Atomic uint32_t* word, uint32_t expected, uint32_t timeout_ms) {
    (void)word, (void)expected, (void)timeout_ms;
}

void session_wake(_Atomic uint32_t* word, int threads) {
    (void)word, (void)threads;
}

void sampled_end(void) {}

uint64_t origin_of_stack(const void* caller) {
    return (uint64_t)caller & (KL_ORIGIN_STACK - 1);
}
