#include "allocator/debug/check_blocks.h"
#include "allocator/debug/contents.h"
#include "allocator/debug/fault_report.h"
#include "allocator/debug/settings.h"
#include "os/lock.h"

static struct os_lock lock;
static atomic_bits allocations;
static uint32_t next; // record from which the next partial check starts

// What the checks of some blocks have found.
struct checked {
    size_t count;
    struct wrong wrong;
    bool freed;
    struct record record; // if a byte is wrong: a copy, so that the report needs no lock
};

// False: a byte is wrong. Adds 1 to the count if there is a block.
static bool check_one(struct record* record, struct checked* checked) {
    if (record == NULL) return true;
    if (record_hold(record, RECORD_LIVE)) {
        checked->freed = false;
        checked->wrong = contents_verify(record);
    } else if (record_hold(record, RECORD_KEPT)) {
        checked->freed = true;
        checked->wrong = contents_verify_freed(record);
    } else {
        return true;
    }
    checked->count++;
    bool correct = checked->wrong.byte == NULL;
    if (!correct) checked->record = *record;
    record_unhold(record, checked->freed ? RECORD_KEPT : RECORD_LIVE);
    return correct;
}

// The thread holds no lock and no record, because a handler of the program may follow.
static void report(const struct checked* checked, uint32_t stack) {
    if (checked->wrong.byte != NULL)
        fault_of_write(&checked->record, checked->wrong.byte, checked->freed, stack);
}

size_t check_all_blocks(uint32_t stack) {
    struct checked checked = {.count = 0};
    if (fault_is_reported()) return 0;
    os_lock_acquire(&lock);
    for (uint32_t number = 0; number < record_end(); number++) {
        if (!check_one(record_of_number(number), &checked)) break;
    }
    os_lock_release(&lock);
    report(&checked, stack);
    return checked.count;
}

static void check_part(uint64_t most, uint32_t stack) {
    struct checked checked = {.count = 0};
    if (fault_is_reported() || !os_lock_try(&lock)) return; // another thread checks
    uint32_t end = record_end();
    for (uint64_t i = 0; i < most && i < end; i++, next++) {
        if (next >= end) next = 0;
        if (!check_one(record_of_number(next), &checked)) break;
    }
    os_lock_release(&lock);
    report(&checked, stack);
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
