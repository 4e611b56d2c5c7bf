#include "allocator/debug/check_blocks.h"
#include "allocator/debug/contents.h"
#include "allocator/debug/fault_report.h"
#include "allocator/debug/settings.h"
#include "os/lock.h"

static struct os_lock lock;
static atomic_bits allocations;
static uint32_t next; // record from which the next partial check starts

// Returns the number of blocks: 0 or 1.
static size_t check_one(struct record* record, uint32_t stack) {
    struct wrong wrong;
    bool freed = false;
    if (record == NULL) return 0;
    if (record_hold(record, RECORD_LIVE)) {
        wrong = contents_verify(record);
    } else if (record_hold(record, RECORD_KEPT)) {
        freed = true;
        wrong = contents_verify_freed(record);
    } else {
        return 0;
    }
    if (wrong.byte != NULL) fault_of_write(record, wrong.byte, freed, stack);
    record_unhold(record, freed ? RECORD_KEPT : RECORD_LIVE);
    return 1;
}

size_t check_all_blocks(uint32_t stack) {
    size_t count = 0;
    os_lock_acquire(&lock);
    for (uint32_t number = 0; number < record_end(); number++)
        count += check_one(record_of_number(number), stack);
    os_lock_release(&lock);
    return count;
}

static void check_part(uint64_t most, uint32_t stack) {
    if (!os_lock_try(&lock)) return; // another thread checks
    for (uint64_t i = 0; i < most; i++, next++) {
        if (next >= record_end()) next = 0;
        (void)check_one(record_of_number(next), stack);
    }
    os_lock_release(&lock);
}

void check_some_blocks(uint32_t stack) {
    uint64_t interval = setting(SETTING_CHECK), most = setting(SETTING_CHECK_BLOCKS);
    if (interval == 0 || (atomic_add(&allocations, 1) + 1) % interval != 0) return;
    if (most == 0)
        (void)check_all_blocks(stack);
    else
        check_part(most, stack);
}

void check_before_fork(void) {
    os_lock_acquire(&lock);
}
void check_after_fork(void) {
    os_lock_release(&lock);
}
