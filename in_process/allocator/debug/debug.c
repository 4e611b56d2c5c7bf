#include "allocator/debug/debug.h"
#include "allocator/alloc/alloc.h"
#include "allocator/debug/call_stack.h"
#include "allocator/debug/check_blocks.h"
#include "allocator/debug/checker.h"
#include "allocator/debug/contents.h"
#include "allocator/debug/failure.h"
#include "allocator/debug/fault_report.h"
#include "allocator/debug/leaks.h"
#include "allocator/debug/quarantine.h"
#include "allocator/large/large.h"
#include "allocator/page/empty_block.h"
#include "allocator/space/arena.h"
#include "base/checked.h"
#include "base/options.h"
#include "os/stack.h"
#include "os/thread.h"

// --- The process ---------------------------------------------------------------------------------

void debug_start(char* const* environment, settings_output* output) {
    settings_read(environment, output);
    os_checker_prepare();
}

void debug_loaded(void) {
    os_stack_prepare();
    failure_allow();
}

void debug_end(settings_output* output) {
    if (setting(SETTING_CHECK_AT_EXIT) != 0) (void)check_all_blocks(call_stack_capture());
    if (setting(SETTING_LEAKS) != 0) leaks_report(output);
}

void debug_before_fork(void) {
    check_before_fork();
    quarantine_before_fork();
    record_before_fork();
    call_stack_before_fork();
}
void debug_after_fork(void) {
    call_stack_after_fork();
    record_after_fork();
    quarantine_after_fork();
    check_after_fork();
}
void debug_repair_in_child(void) {
    record_forget_thread();
    quarantine_repair_in_child();
}

// --- Allocation ----------------------------------------------------------------------------------

// If the alignment concerns the block's start, the prefix is a multiple of it, so that the lower
// block needs the same alignment. If it concerns an offset, the prefix moves the offset.
bool debug_lower(const struct request* request, struct debug_request* debug) {
    size_t bytes;
    bool inner = (request->offset & (request->alignment - 1)) != 0;
    debug->prefix = PREFIX_BYTES;
    if (!inner && request->alignment > PREFIX_BYTES) debug->prefix = request->alignment;
    if (!size_add(request->size, debug->prefix + CANARY_BYTES, &bytes)) return false;
    if (!large_is_possible(bytes, request->alignment)) return false;
    debug->roomy = false;
    debug->lower = *request;
    debug->lower.size = bytes;
    if (inner) debug->lower.offset += debug->prefix;
    return !failure_is_due(request->size);
}

void* debug_begin(void* lower, const struct request* request, const struct debug_request* debug) {
    struct record* record = record_new();
    if (record == NULL) {
        free_block(lower);
        return NULL;
    }
    record_place(record, lower, debug->prefix);
    record->size = request->size;
    record->roomy = debug->roomy;
    record->kind = BLOCK_MALLOC;
    record->allocated_stack = call_stack_capture();
    record->allocated_thread = record_thread();
    record->freed_stack = 0;
    contents_seal(record);
    if (!request->zero) contents_fill_new(record);
    checker_begin(record, request->zero);
    void* block = record_block(record);
    uint32_t stack = record->allocated_stack;
    atomic_set_release(&record->state, RECORD_LIVE);
    check_some_blocks(stack);
    return block;
}

// --- Free ----------------------------------------------------------------------------------------

// The address is not that of a live block with a correct number.
static KEEL_COLD void fault_at(const void* address, uint32_t stack) {
    struct record* record = record_search(address);
    uint32_t state = record == NULL ? RECORD_UNUSED : atomic_get(&record->state);
    bool live = (state & ~(uint32_t)RECORD_BUSY) == RECORD_LIVE;
    if (record != NULL && record_block(record) == address) {
        if (!live) fault_of_call(FAULT_DOUBLE_FREE, address, record, stack);
        fault_of_write(record, record->start + sizeof(uint64_t) - 1, false, stack);
    }
    if (live) fault_of_call(FAULT_FREE_MISALIGNED, address, record, stack);
    if (block_is_ours(address) || slices_contain(address) || large_contains(address))
        fault_of_call(FAULT_FREE_NOT_ALLOCATED, address, NULL, stack);
}

static KEEL_COLD void fault_foreign(const void* address, uint32_t stack) {
    if (option_get(OPTION_FOREIGN_FREE) != 0)
        fault_of_call(FAULT_FREE_NOT_ALLOCATED, address, NULL, stack);
}

// The program's malloc may be another one, whose blocks the C++ operators pass on.
static KEEL_COLD void free_foreign(void* address, uint32_t stack) {
    if (free_pass_on(address)) return;
    fault_foreign(address, stack);
    free_any(address); // counts it, and prints a warning
}

// NULL: the block is foreign.
static struct record* live_record(const void* address, uint32_t stack) {
    struct record* record = record_around(address);
    if (KEEL_LIKELY(record != NULL && record_block(record) == address)) {
        uint32_t state = atomic_get_acquire(&record->state) & ~(uint32_t)RECORD_BUSY;
        if (KEEL_LIKELY(state == RECORD_LIVE)) return record;
    }
    fault_at(address, stack);
    return NULL;
}

static void verify(const struct record* record, uint32_t stack) {
    struct wrong wrong = contents_verify(record);
    if (KEEL_UNLIKELY(wrong.byte != NULL)) fault_of_write(record, wrong.byte, false, stack);
}

static void free_record(struct record* record, uint32_t stack) {
    const void* block = record_block(record);
    if (record_change(record, RECORD_LIVE, RECORD_MOVING) != RECORD_LIVE) fault_at(block, stack);
    verify(record, stack);
    record->freed_stack = stack;
    record->freed_thread = record_thread();
    contents_fill_freed(record);
    checker_end(record);
    quarantine_add(record, stack);
}

static void require_kind(const struct record* record, enum block_kind kind, uint32_t stack) {
    if (KEEL_LIKELY(record->kind == (uint8_t)kind || kind == BLOCK_ANY)) return;
    if (setting(SETTING_MISMATCH) == 2) fault_of_kind(record, kind, stack);
    if (setting(SETTING_MISMATCH) == 1) report_of_kind(record, kind, stack);
}

void debug_free(void* address, enum block_kind kind) {
    if (address == NULL || empty_block_free(address)) return;
    address = address_untagged(address);
    uint32_t stack = call_stack_capture();
    struct record* record = live_record(address, stack);
    if (record == NULL) {
        free_foreign(address, stack);
        return;
    }
    require_kind(record, kind, stack);
    free_record(record, stack);
}

static void wrong_size(const struct record* record, size_t size, uint32_t stack) {
    int64_t choice = option_get(OPTION_SIZED_FREE);
    if (choice == SIZED_FREE_REPORT)
        report_of_size(record, size, stack);
    else if (choice != SIZED_FREE_ANY)
        fault_of_size(record, size, stack);
}

void debug_free_sized(void* address, size_t size, enum block_kind kind) {
    if (address == NULL || empty_block_free(address)) return;
    address = address_untagged(address);
    uint32_t stack = call_stack_capture();
    struct record* record = live_record(address, stack);
    if (record == NULL) {
        free_foreign(address, stack);
        return;
    }
    require_kind(record, kind, stack);
    if (record->size != size) wrong_size(record, size, stack);
    free_record(record, stack);
}

// --- Queries -------------------------------------------------------------------------------------

bool debug_size(const void* address, size_t* size) {
    address = address_untagged(address);
    uint32_t stack = call_stack_capture();
    struct record* record = live_record(address, stack);
    if (record == NULL) {
        fault_foreign(address, stack);
        return false;
    }
    verify(record, stack);
    *size = record->size;
    return true;
}

static bool is_aligned(const void* address, const struct request* request) {
    return (((uintptr_t)address + request->offset) & (request->alignment - 1)) == 0;
}

bool debug_resize_in_place(void* address, const struct request* request) {
    struct record* record = record_around(address);
    if (settings_fail) return false; // as any allocation, a resize may have to fail
    if (record == NULL || record->roomy == 0 || !is_aligned(address, request)) return false;
    size_t capacity = contents_capacity(record);
    if (request->size > capacity || request->size < capacity / 2) return false;
    if (record_change(record, RECORD_LIVE, RECORD_MOVING) != RECORD_LIVE) return false;
    record->allocated_stack = call_stack_capture();
    record->allocated_thread = record_thread();
    const size_t before = record->size;
    checker_leave_canary(record);
    contents_resize(record, request->size, request->zero);
    checker_resize(record, before, request->zero);
    atomic_set_release(&record->state, RECORD_LIVE);
    return true;
}

bool debug_shrink(void* address, const struct request* request) {
    struct record* record = record_around(address);
    if (record == NULL || request->size > record->size || !is_aligned(address, request))
        return false;
    if (record_change(record, RECORD_LIVE, RECORD_MOVING) != RECORD_LIVE) return false;
    const size_t before = record->size;
    record->size = request->size;
    contents_seal(record);
    checker_resize(record, before, false);
    atomic_set_release(&record->state, RECORD_LIVE);
    return true;
}

static struct record* live_at(const void* address) {
    struct record* record = record_around(address);
    if (record == NULL || record_block(record) != address) return NULL;
    uint32_t state = atomic_get_acquire(&record->state) & ~(uint32_t)RECORD_BUSY;
    return state == RECORD_LIVE ? record : NULL;
}

void debug_require_kind(const void* address, enum block_kind kind) {
    const struct record* record = live_at(address_untagged(address));
    if (record != NULL && record->kind != (uint8_t)kind)
        require_kind(record, kind, call_stack_capture());
}

void debug_set_kind(const void* address, enum block_kind kind) {
    struct record* record = live_at(address);
    if (record != NULL) record->kind = (uint8_t)kind;
}

enum block_kind debug_kind(const void* address) {
    const struct record* record = live_at(address_untagged(address));
    return record == NULL ? BLOCK_MALLOC : (enum block_kind)record->kind;
}

size_t debug_usable_bytes(const void* address) {
    address = address_untagged(address);
    const struct record* record = live_at(address);
    if (record != NULL) return record->size;
    if (address == NULL || empty_block_is_live(address)) return 0;
    uint32_t stack = call_stack_capture();
    fault_at(address, stack);
    fault_foreign(address, stack);
    return 0;
}

void debug_require_within(const void* address, size_t bytes) {
    const struct record* record = record_near(address);
    if (record == NULL) return;
    uint32_t state = atomic_get_acquire(&record->state) & ~(uint32_t)RECORD_BUSY;
    if (state == RECORD_KEPT) fault_of_call(FAULT_COPY_FREE, address, record, call_stack_capture());
    size_t inside = (size_t)((const char*)address - record_block(record)); // huge: before it
    bool within = inside <= record->size && bytes <= record->size - inside;
    if (state == RECORD_LIVE && !within)
        fault_of_call(FAULT_COPY_END, address, record, call_stack_capture());
}

const void* debug_lower_address(const void* address) {
    const struct record* record = record_around(address);
    return record == NULL ? address : record->start;
}

void* debug_visited(const void* lower) {
    const struct record* record = record_around(lower);
    return record != NULL && live_at(record_block(record)) != NULL ? record_block(record) : NULL;
}

// --- Heaps and checks ----------------------------------------------------------------------------

struct ending {
    struct record* gone; // linked by `next`
    uint32_t stack;
    bool incomplete;
};

static bool end_block(void* context, const struct visited_page* area, void* lower) {
    struct ending* ending = context;
    (void)area;
    struct record* record = lower == NULL ? NULL : record_search(lower);
    if (record == NULL) return true;
    uint32_t state = record_change(record, RECORD_LIVE, RECORD_MOVING);
    if (state == RECORD_LIVE) {
        verify(record, ending->stack);
        checker_end(record);
        checker_leave(record);
        record->freed_stack = ending->stack;
        record->freed_thread = record_thread();
        record->next = ending->gone == NULL ? 0 : record_number(ending->gone);
        ending->gone = record;
    } else if (state == RECORD_KEPT) {
        checker_leave(record);
        state = record_change(record, RECORD_KEPT, RECORD_GONE);
    }
    if (state == RECORD_MOVING) ending->incomplete = true;
    return true;
}

// A block of the heap may just leave the quarantine on another thread. That thread needs the heap's
// lock, so it is waited for outside of the visit.
void debug_heap_ends(struct user_heap* user) {
    struct ending ending = {NULL, call_stack_capture(), true};
    while (ending.incomplete) {
        ending.incomplete = false;
        ending.gone = NULL;
        (void)user_heap_visit(user, true, end_block, &ending);
        while (ending.gone != NULL) {
            struct record* record = ending.gone;
            ending.gone = record_of_number(record->next);
            record_release(record);
        }
        if (!ending.incomplete || !quarantine_is_returning()) return;
        debug_wait();
    }
}

void debug_visit_begins(void) {
    quarantine_pause();
}
void debug_visit_ends(void) {
    quarantine_resume();
}

bool debug_empty_quarantine(void) {
    quarantine_empty(call_stack_capture());
    return quarantine_is_returning();
}

void debug_wait(void) {
    static atomic_state never;
    os_wait(&never, 0, 100);
}

size_t debug_check_all(void) {
    return check_all_blocks(call_stack_capture());
}
