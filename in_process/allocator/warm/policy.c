#include "allocator/warm/policy.h"
#include "allocator/space/partition.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/memory.h"
#include "os/process.h"

struct policy policy;

static size_t at_least_0(int64_t count) {
    return count < 0 ? 0 : (size_t)count;
}

static int64_t sparse_part(size_t bytes) {
    return (int64_t)(bytes - bytes / SPARSE_SHARE);
}

static size_t cached_slices(void) {
    size_t bytes = mapping_cache_bytes();
    int64_t absent = atomic_get(&policy.absent);
    int64_t most = sparse_part(bytes);
    if (absent > most) absent = most;
    return (bytes - at_least_0(absent)) / SLICE_BYTES;
}

size_t policy_used(void) {
    int64_t live = (int64_t)(run_live_slices() * SLICE_BYTES + jumbo_live_bytes());
    int64_t used = live - atomic_get(&policy.untouched);
    return at_least_0(used / (int64_t)SLICE_BYTES - atomic_get(&policy.kept));
}

size_t policy_idle(void) {
    return run_dirty_slices() + cached_slices() + at_least_0(atomic_get(&policy.kept)) +
           at_least_0(atomic_get(&policy.under_way)) * HUGE_SLICES;
}

size_t policy_budget(size_t used) {
    return BUDGET_BASE + (used < BUDGET_SHARE_FROM ? 0 : used / BUDGET_SHARE);
}

size_t policy_rest(void) {
    return policy_budget(policy_used()) / IDLE_SHARE;
}

bool policy_admits_kept(size_t slices) {
    size_t kept = at_least_0(atomic_get(&policy.kept));
    return kept + slices <= policy_budget(policy_used()) / KEPT_SHARE && policy_cap_admits(slices);
}

// At any price.
static bool wants_huge(void) {
    return option_get(OPTION_LARGE_OS_PAGES) != 0;
}

bool policy_may_have_huge(void) {
    uint32_t known = atomic_get(&policy.huge);
    if (known == HUGE_NONE) return false;
    if (known == HUGE_UNKNOWN && option_get(OPTION_KEEPER) == KEEPER_NEVER) return false;
    uint64_t from = atomic_get(&policy.huge_from_ms);
    return KEEL_LIKELY(from == 0) || os_clock_ms() >= from || wants_huge();
}

// A race between threads loses at most one record.
void policy_note_huge(uint64_t took_us) {
    if (wants_huge()) return;
    uint64_t lost = atomic_get(&policy.huge_lost_us) + took_us;
    lost = lost > UNIT_SMALL_US ? lost - UNIT_SMALL_US : 0;
    if (lost > HUGE_LOSS_US) {
        lost = HUGE_LOSS_US; // the next one decides again
        atomic_set(&policy.huge_from_ms, os_clock_ms() + took_us * HUGE_PAUSE / 1000);
    }
    atomic_set(&policy.huge_lost_us, lost);
}

bool policy_trusts(unsigned slices, bool earned) {
    size_t used = policy_used();
    size_t most = TRUST_BASE + (earned ? used / TRUST_SHARE : 0);
    return used >= UNITS_FROM && at_least_0(atomic_get(&policy.trusted)) + slices <= most;
}

// --- The period ----------------------------------------------------------------------------------

static size_t recent_peak(size_t used) {
    uint64_t now = atomic_get(&policy.peak_now);
    uint64_t before = atomic_get(&policy.peak_before);
    uint64_t peak = now > before ? now : before;
    return peak > used ? peak : used;
}

bool policy_is_above_cap(void) {
    return !policy_cap_admits(0) &&
           run_dirty_slices() + mapping_cache_bytes() / SLICE_BYTES > CAP_WARM;
}

static size_t refaults(size_t peak) {
    uint64_t now = atomic_get(&policy.refaults_now);
    uint64_t before = atomic_get(&policy.refaults_before);
    uint64_t slices = now > before ? now : before;
    return slices < peak / REFAULT_SHARE ? slices : peak / REFAULT_SHARE;
}

// Requests took so many cold slices. A race between threads loses at most one record.
static void refaults_note(uint64_t cold) {
    uint64_t early = atomic_get(&policy.early);
    if (KEEL_LIKELY(early == 0)) return;
    uint64_t slices = cold < early ? cold : early;
    atomic_set(&policy.early, early - slices);
    atomic_set(&policy.refaults_now, atomic_get(&policy.refaults_now) + slices);
}

void policy_returned_early(size_t slices) {
    atomic_set(&policy.early, atomic_get(&policy.early) + slices);
}

void policy_note_mapping(size_t bytes) {
    refaults_note(bytes / SLICE_BYTES);
}

// Slices that used memory and `idle` slices together exceed what rule 3 admits by.
static size_t excess(size_t idle) {
    if (idle <= BUDGET_BASE) return 0;
    size_t used = policy_used();
    size_t peak = recent_peak(used);
    size_t most = peak + policy_budget(peak) + policy_target() + refaults(peak);
    return used + idle > most ? used + idle - most : 0;
}

size_t policy_excess(void) {
    if (os_memory_is_locked()) return 0; // all of it stays
    if (policy_is_above_cap()) return SUPERBLOCK_SLICES;
    if (option_get(OPTION_RESET_DELAY) < 0) return 0; // the program keeps all
    return excess(policy_idle());
}

// `idle` slices are idle, with the unit and without those of it that are needed at once.
static bool admits_unit(unsigned slices, int64_t idle) {
    if (partition_now() != 0 || !policy_may_have_huge()) return false; // units are of partition 0
    if (policy_used() + slices < UNITS_FROM || !policy_cap_admits(HUGE_SLICES)) return false;
    return excess(at_least_0(idle)) == 0;
}

bool policy_admits_unit(unsigned slices) {
    return admits_unit(slices, (int64_t)(policy_idle() + HUGE_SLICES) - (int64_t)slices);
}

bool policy_begin_unit(unsigned slices) {
    (void)atomic_add(&policy.under_way, 1); // first, so that other threads' units count
    if (admits_unit(slices, (int64_t)policy_idle() - (int64_t)slices)) return true;
    policy_end_unit();
    return false;
}

void policy_end_unit(void) {
    (void)atomic_sub(&policy.under_way, 1);
}

void policy_note(void) {
    size_t used = policy_used();
    uint64_t cold = run_cold_taken();
    uint64_t noted = atomic_get(&policy.cold_noted);
    // Another thread may be ahead.
    if (cold > noted && atomic_try_bits(&policy.cold_noted, &noted, cold))
        refaults_note(cold - noted);
    if (used > atomic_get(&policy.peak_now)) atomic_set(&policy.peak_now, used);
    size_t dirty = run_dirty_slices();
    if (dirty < atomic_get(&policy.lowest)) atomic_set(&policy.lowest, dirty);
    size_t cached = mapping_cache_bytes();
    if (cached < atomic_get(&policy.lowest_cached)) atomic_set(&policy.lowest_cached, cached);
}

bool policy_has_unneeded_mappings(void) {
    policy_note();
    return atomic_get(&policy.lowest_cached) > 0;
}

static size_t idle_at_rest(void) {
    size_t stays = policy_rest();
    size_t target = policy_target();
    return target > stays ? target : stays;
}

// A race between threads loses at most one record; the next period corrects that.
static void period_turn(int64_t delay_ms) {
    uint64_t now = os_clock_ms();
    uint64_t end = atomic_get(&policy.period_end_ms);
    uint64_t length = (uint64_t)delay_ms / PERIODS_A_DELAY;
    KEEL_ASSERT(delay_ms >= 0);
    if (now < end && end <= now + length) return; // else the delay was shortened meanwhile
    if (!atomic_try_bits(&policy.period_end_ms, &end, now + length)) return;
    policy_note();
    uint64_t lowest = atomic_get(&policy.lowest);
    size_t stays = idle_at_rest();
    atomic_set(&policy.surplus, end != 0 && lowest > stays ? lowest - stays : 0);
    atomic_set(&policy.lowest, run_dirty_slices());
    atomic_set(&policy.lowest_cached, mapping_cache_bytes());
    atomic_set(&policy.peak_before, atomic_get(&policy.peak_now));
    atomic_set(&policy.peak_now, policy_used());
    atomic_set(&policy.refaults_before, atomic_get(&policy.refaults_now));
    atomic_set(&policy.refaults_now, 0);
    atomic_set(&policy.early, 0);
}

size_t policy_surplus(void) {
    int64_t delay_ms = option_get(OPTION_RESET_DELAY);
    if (delay_ms >= 0) period_turn(delay_ms);
    return atomic_get(&policy.surplus);
}

void policy_returned(size_t slices) {
    uint64_t due = atomic_get(&policy.surplus);
    atomic_set(&policy.surplus, due > slices ? due - slices : 0);
}

bool policy_is_at_rest(void) {
    return run_dirty_slices() <= idle_at_rest() && mapping_cache_bytes() == 0;
}

// --- Large blocks --------------------------------------------------------------------------------

void policy_begin_sparse(struct page* page) {
    KEEL_ASSERT(page->sparse == 0 && page->bytes > 0);
    if (fill_is_expected(page->bytes)) return;
    page->sparse = 1;
    policy_touch(-sparse_part(page->bytes));
}
void policy_end_sparse(struct page* page) {
    if (page->sparse == 0) return;
    page->sparse = 0;
    policy_touch(sparse_part(page->bytes));
}
void policy_resize_large(struct page* page, size_t bytes) {
    KEEL_ASSERT(page->sparse <= 1 && bytes > 0);
    bool sparse = page->sparse != 0;
    policy_end_sparse(page);
    page->bytes = bytes;
    if (sparse) policy_begin_sparse(page);
}

void policy_cache(bool sparse, size_t bytes) {
    int64_t most = sparse_part(mapping_cache_bytes()); // older ones may have been returned
    if (atomic_get(&policy.absent) > most) atomic_set(&policy.absent, most);
    if (sparse) (void)atomic_add(&policy.absent, sparse_part(bytes));
}
void policy_uncache(struct page* page) {
    if (atomic_get(&policy.absent) < sparse_part(page->bytes)) return;
    (void)atomic_sub(&policy.absent, sparse_part(page->bytes));
    policy_begin_sparse(page);
}

// --- The control group's limit -------------------------------------------------------------------

void policy_set_cap(size_t slices) {
    atomic_set(&policy.cap, slices == SIZE_MAX ? 0 : slices > 0 ? slices : 1);
}
size_t policy_held(void) {
    return run_live_slices() + run_dirty_slices() +
           (jumbo_live_bytes() + mapping_cache_bytes()) / SLICE_BYTES;
}
bool policy_cap_admits(size_t slices) {
    uint64_t most = atomic_get(&policy.cap);
    return KEEL_LIKELY(most == 0) || policy_held() + slices <= most;
}

void policy_forget(void) {
    atomic_set(&policy.under_way, 0);
    policy_set_keeper(false);
}

bool policy_check(void) {
    if (!KEEL_CHECKS) return true;
    if (atomic_get(&policy.huge) > HUGE_AVAILABLE || atomic_get(&policy.has_keeper) > 1)
        return false;
    if (atomic_get(&policy.is_preferred) > 1) return false;
    return atomic_get(&policy.untouched) >= 0 && atomic_get(&policy.trusted) >= 0 &&
           atomic_get(&policy.kept) >= 0 && atomic_get(&policy.under_way) >= 0;
}
