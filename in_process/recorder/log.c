#include "log.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "clock.h"
#include "session.h"
#include "signals.h"
#include "system.h"
#include <errno.h>

static atomic_state preparing;

// Reads both clocks several times and takes the closest pair. So an interrupt between two readings
// does no harm.
static void clocks_read(struct kl_log_chunk* chunk) {
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_ticks(session.clock, true);
        uint64_t raw_ns = system_raw_ns();
        uint64_t width = clock_ticks(session.clock, true) - before;
        if (width >= closest) continue;
        closest = width;
        chunk->ticks = before + width / 2;
        chunk->raw_ns = raw_ns;
    }
}

// Appends a chunk with these pieces, at most two. Returns 0 or the errno.
static int chunk_append(struct kl_log_chunk chunk, const struct piece* pieces, int count) {
    struct piece all[PIECES_MAX] = {{&chunk, sizeof chunk}};
    chunk.magic = KL_CHUNK_MAGIC;
    clocks_read(&chunk);
    for (int i = 0; i < count; i++) {
        all[i + 1] = pieces[i];
        chunk.bytes += pieces[i].length;
    }
    return system_files_append(all, count + 1);
}

static int ring_append(struct kl_ring_entry* entry) {
    struct kl_ring* ring = session_ring((uint32_t)(entry - session.rings));
    struct kl_ring_slot* slots = kl_ring_first_slot(ring);
    unsigned shift = bit_lowest(entry->slots);
    uint64_t mask = entry->slots - 1;
    uint64_t first = atomic_get(&ring->tail);
    uint64_t end = first;
    for (; end - first < entry->slots; end++) {
        uint64_t word = atomic_get_acquire(&slots[end & mask].word);
        if ((word & 0xff) == 0 || (word >> 8 & 0xff) != kl_ring_tag(end, shift)) break;
    }
    if (end == first) return 0;
    uint64_t until_wrap = entry->slots - (first & mask);
    uint64_t count = end - first;
    uint64_t before = count < until_wrap ? count : until_wrap;
    struct piece pieces[2] = {{&slots[first & mask], before * sizeof *slots},
                              {slots, (count - before) * sizeof *slots}};
    struct kl_log_chunk chunk = {.kind = KL_CHUNK_EVENTS,
                                 .ring = (uint32_t)(entry - session.rings),
                                 .first = first,
                                 .stalls = ring->stalls,
                                 .stalled_ticks = ring->stalled_ticks};
    int error = chunk_append(chunk, pieces, 2);
    if (error == 0) atomic_set_release(&ring->tail, end);
    return error;
}

bool log_write_ring(struct kl_ring_entry* entry) {
    return ring_append(entry) == 0;
}

bool log_prepare_ring(uint32_t index) {
    // A handler may also need a ring, and would wait for this thread.
    signal_set before = signals_block();
    while (atomic_swap(&preparing, 1) != 0) system_yield();
    bool done = atomic_get_acquire(&session.spool->prepared) > index;
    uint64_t offset = kl_ring_offset(index);
    uint32_t slots = kl_ring_slots(index);
    if (!done && system_files_reserve(offset, kl_ring_bytes(slots))) {
        session.rings[index] = (struct kl_ring_entry){offset, slots, KL_RING_NEW};
        atomic_set_release(&session.spool->prepared, index + 1);
        done = true;
    }
    atomic_set_release(&preparing, 0);
    signals_restore(before);
    return done;
}

// Writes the header, the object files, and a reading of the clocks. A second reading follows a
// millisecond later. It gives the frequency if the program crashes before its first chunk.
static int log_write_head(void) {
    struct kl_spool header = *session.spool;
    header.magic = KL_LOG_MAGIC;
    int error = system_files_append(&(struct piece){&header, sizeof header}, 1);
    char* maps = (char*)session.spool + KL_SPOOL_MAPS;
    struct piece part = {maps, session.spool->maps_bytes};
    struct kl_log_chunk chunk = {.kind = KL_CHUNK_MAPS};
    if (error == 0) error = chunk_append(chunk, &part, 1);
    system_sleep_us(1000);
    return error != 0 ? error : chunk_append(chunk, &part, 1);
}

static void release(enum system_kept kept) {
    struct kl_spool* spool = session.spool;
    session.own_log = 0;
    session.spool = NULL;
    session.rings = NULL;
    uint32_t prepared = spool != NULL ? atomic_get_acquire(&spool->prepared) : 0;
    system_files_release(spool, kl_ring_offset(0), kl_ring_offset(prepared), kept);
}

int log_start(const char* path) {
    static bool chosen;
    if (!chosen) session.clock = system_clock();
    chosen = true;
    atomic_set(&preparing, 0); // a fork may have copied a value that was set in the parent
    void* rings = NULL;
    int error = system_files_create(path, kl_ring_offset(KL_RING_MAX), kl_ring_offset(1), &rings);
    session.spool = rings;
    if (error == 0) {
        session_describe(KL_SPOOL_MAGIC);
        error = log_write_head();
    }
    session.own_log = error == 0;
    if (error != 0) release(KEPT_NONE);
    return error;
}

int log_end(bool is_whole) {
    uint32_t prepared = atomic_get_acquire(&session.spool->prepared);
    int error = is_whole ? 0 : ENOSPC;
    for (uint32_t index = 0; index < prepared && error == 0; index++) {
        error = ring_append(&session.rings[index]);
    }
    char* maps = (char*)session.spool + KL_SPOOL_MAPS;
    if (error == 0) {
        struct piece part = {maps, system_maps(maps, KL_MAPS_BYTES)};
        error = chunk_append((struct kl_log_chunk){.kind = KL_CHUNK_MAPS}, &part, 1);
    }
    if (error == 0) error = chunk_append((struct kl_log_chunk){.kind = KL_CHUNK_END}, NULL, 0);
    release(error == 0 ? KEPT_LOG : KEPT_BOTH);
    return error;
}
