#include "allocator/keeper/headroom.h"
#include "allocator/space/page_map.h"
#include "allocator/warm/reserve.h"
#include "base/panic.h"
#include "os/machine.h"
#include "os/process.h"

static struct {
    uint64_t left; // bytes at the last reading, less those populated since
    uint64_t read_ms;
    uint64_t paused_until_ms;
    uint64_t pause_ms; // length of the last pause; 0: the last populate succeeded
    bool known;        // there has been a reading
} headroom;

void headroom_begin(void) {
    headroom.known = false;
    headroom.pause_ms = 0;
    headroom.paused_until_ms = 0;
}

// What Keel holds, and the headroom less a quarter: other memory of the process grows, too.
static void set_cap(size_t held, uint64_t left) {
    uint64_t kept = left / 4 < HEADROOM_KEPT ? left / 4 : HEADROOM_KEPT;
    KEEL_ASSERT(kept <= left);
    bool limited = left != UINT64_MAX;
    policy_set_cap(limited ? held + (left - kept) / SLICE_BYTES : SIZE_MAX);
}

static uint64_t headroom_left(uint64_t now_ms) {
    bool limited = !headroom.known || headroom.left != UINT64_MAX;
    bool old = !headroom.known || now_ms - headroom.read_ms >= HEADROOM_READ_MS;
    if (limited && old) {
        size_t held = policy_held(); // before the reading: it may grow meanwhile
        headroom.left = os_memory_headroom();
        headroom.read_ms = now_ms;
        headroom.known = true;
        set_cap(held, headroom.left);
    }
    return headroom.left;
}

bool headroom_admits(size_t bytes) {
    uint64_t now_ms = os_clock_ms();
    if (now_ms < headroom.paused_until_ms) return false;
    return headroom_left(now_ms) >= HEADROOM_KEPT + bytes;
}

void headroom_used(size_t bytes) {
    KEEL_ASSERT(bytes > 0);
    headroom.pause_ms = 0;
    if (headroom.left == UINT64_MAX) return;
    headroom.left = headroom.left > bytes ? headroom.left - bytes : 0;
}

void headroom_refused(void) {
    uint64_t pause_ms = 2 * headroom.pause_ms;
    if (pause_ms < HEADROOM_PAUSE_MIN_MS) pause_ms = HEADROOM_PAUSE_MIN_MS;
    if (pause_ms > HEADROOM_PAUSE_MAX_MS) pause_ms = HEADROOM_PAUSE_MAX_MS;
    headroom.pause_ms = pause_ms;
    KEEL_ASSERT(pause_ms >= HEADROOM_PAUSE_MIN_MS && pause_ms <= HEADROOM_PAUSE_MAX_MS);
    headroom.paused_until_ms = os_clock_ms() + pause_ms;
}
