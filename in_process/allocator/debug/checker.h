// Keeps a checker of memory informed about blocks, where one runs (os/memory_checker.h). To it, the
// guard, the canary and freed blocks are forbidden memory.
#ifndef KEEL_ALLOCATOR_DEBUG_CHECKER_H
#define KEEL_ALLOCATOR_DEBUG_CHECKER_H

#include "allocator/debug/record.h"
#include "os/memory_checker.h"

KEEL_COLD void checker_report_begin(const struct record* record, bool zeroed);
KEEL_COLD void checker_report_size(const struct record* record, size_t before, bool zeroed);
KEEL_COLD void checker_report_write(const struct record* record);
KEEL_COLD void checker_report_end(const struct record* record);
KEEL_COLD void checker_report_leave(const struct record* record);

// The block is complete: its guard and canary are written.
KEEL_INLINE void checker_begin(const struct record* record, bool zeroed) {
    if (KEEL_UNLIKELY(os_checker_runs)) checker_report_begin(record, zeroed);
}
// Keel writes behind a live block.
KEEL_INLINE void checker_leave_canary(const struct record* record) {
    if (KEEL_UNLIKELY(os_checker_runs)) checker_report_write(record);
}
// The size has changed, and the canary is written. `zeroed`: the bytes that it gained are.
KEEL_INLINE void checker_resize(const struct record* record, size_t before, bool zeroed) {
    if (KEEL_UNLIKELY(os_checker_runs)) checker_report_size(record, before, zeroed);
}
// The program frees the block.
KEEL_INLINE void checker_end(const struct record* record) {
    if (KEEL_UNLIKELY(os_checker_runs)) checker_report_end(record);
}
// The allocator below gets the memory.
KEEL_INLINE void checker_leave(const struct record* record) {
    if (KEEL_UNLIKELY(os_checker_runs)) checker_report_leave(record);
}

// Around Keel's own accesses to forbidden memory.
KEEL_INLINE void checker_pause(void) {
    if (KEEL_UNLIKELY(os_checker_runs)) os_checker_pause();
}
KEEL_INLINE void checker_resume(void) {
    if (KEEL_UNLIKELY(os_checker_runs)) os_checker_resume();
}

#endif
