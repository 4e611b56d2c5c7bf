// The part of session.h that is the same on every system.
#include "clock.h"
#include "host.h"
#include "sampled.h"
#include "session.h"
#include "system.h"
#include <stdio.h>

struct session_page session_page;
struct session session;

struct kl_ring* session_ring(uint32_t index) {
    return (struct kl_ring*)((char*)session.spool + session.rings[index].offset);
}

void session_describe(uint64_t magic) {
    struct kl_spool* spool = session.spool;
    session.rings = (struct kl_ring_entry*)((char*)spool + KL_PAGE_BYTES);
    spool->version = KL_RING_VERSION;
    snprintf(spool->allocator, sizeof spool->allocator, "%s", host_allocator());
    snprintf(spool->other_allocator, sizeof spool->other_allocator, "%s", host_other_allocator());
    system_describe(spool);
    session.rings[0] = (struct kl_ring_entry){
        .offset = kl_ring_offset(0), .slots = kl_ring_slots(0), .state = KL_RING_NEW};
    spool->maps_bytes = (uint32_t)system_maps((char*)spool + KL_SPOOL_MAPS, KL_MAPS_BYTES);
    spool->clock = session.clock;
    spool->prepared = 1;
    spool->started_ticks = clock_ticks(session.clock, true);
    spool->magic = magic;
    atomic_set_release(&spool->ready, 1);
}

void session_stop(enum kl_stop reason) {
    struct kl_spool* spool = session.spool;
    uint32_t none = KL_STOP_NONE;
    uint64_t now = clock_ticks(session.clock, true);
    uint64_t never = 0;
    atomic_try_ordered(&spool->stop_ticks, &never, now);
    atomic_try_ordered(&spool->stopped, &none, (uint32_t)reason);
    atomic_set_ordered(&session_page.state, SESSION_OFF);
    sampled_end();
    host_stopped();
}

// Either this thread reads OFF here, or session_wait_for_all waits for this thread.
bool session_enter(void) {
    atomic_add_ordered(&session.users, 1);
    if (atomic_get_ordered(&session_page.state) == SESSION_ON) return true;
    session_leave();
    return false;
}

void session_leave(void) {
    atomic_sub_release(&session.users, 1);
}

void session_wait_for_all(void) {
    enum { POLL_US = 50 };
    while (atomic_get_acquire(&session.users) != 0) system_sleep_us(POLL_US);
}
