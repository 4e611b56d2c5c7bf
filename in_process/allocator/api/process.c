#include "allocator/api/process.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/api/message.h"
#include "allocator/api/report.h"
#include "allocator/debug/debug.h"
#include "allocator/guarded/guarded.h"
#include "allocator/guarded/report.h"
#include "allocator/guarded/sample.h"
#include "allocator/heap/last_look.h"
#include "allocator/heap/pool.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/watch.h"
#include "allocator/keeper/keeper.h"
#include "allocator/space/arena.h"
#include "allocator/space/window.h"
#include "base/counters.h"
#include "base/cycles.h"
#include "base/format.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/thread.h"

atomic_state process_started;

static KEEL_TLS bool is_first; // the program's first thread, or the one that forked

static void on_thread_exit(void* heap) {
    (void)heap;
    (void)user_heap_set_default(NULL);
    if (is_first) keeper_end();
    heap_leave();
    thread_heap = (struct heap*)&heap_gone; // also without a heap: this may be the last round
}

static void report_refused(const char* entry) {
    char line[192];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "keel: invalid value, the default is used (give a number, also with K, M, "
                       "G, or on, off): ");
    text_string(&text, entry);
    message_write(line);
    message_write("\n");
}

// Also without a heap: other threads may start the keeper. Where Keel has already seen the thread's
// end, it may not see another one.
static void first_begins(void) {
    is_first = true;
    if (thread_heap == &heap_gone) keeper_end();
    os_thread_exit_arm(&is_first);
}

// --- Fork ----------------------------------------------------------------------------------------
//
// Prepare handlers run in the reverse order of registration, the others in that order:
//
//   later handlers, process_before_fork, earlier handlers,
//   FORK, earlier handlers, process_after_fork, later handlers
//
// So earlier handlers of other libraries run while this thread holds all locks (os/lock.h). If such
// a handler waits for another thread, and that thread for one of these locks, the process hangs. To
// make earlier handlers rare, Keel registers its own at its first allocation.

// Calls of fork that this thread is in: a handler may fork.
static KEEL_TLS unsigned forks;

void process_before_fork(void) {
    if (forks++ > 0) return;
    os_stack_before_fork(); // first: a walk may allocate
    user_heap_before_fork();
    guarded_before_fork();
    relief_pause();
    watch_before_fork();
    heap_pool_before_fork();
    arena_before_fork();
    if (KEEL_DEBUG) debug_before_fork(); // last: a visitor of a locked heap may allocate
    os_lock_holds_all = true;
}
void process_after_fork(void) {
    if (--forks > 0) return;
    os_lock_holds_all = false;
    if (KEEL_DEBUG) debug_after_fork();
    arena_after_fork();
    heap_pool_after_fork();
    watch_after_fork();
    relief_resume();
    guarded_after_fork();
    user_heap_after_fork();
    os_stack_after_fork();
}
static void after_fork_in_child(void) {
    watch_forget();
    relief_forget();
    process_after_fork();
    keeper_forget();
    first_begins();
    guarded_forget_thread();
    os_stack_repair_in_child();
    guarded_repair_in_child();
    if (KEEL_DEBUG) debug_repair_in_child();
    user_heap_repair_in_child();
    heap_repair_in_child(own_heap());
}

// --- Start and end -------------------------------------------------------------------------------

// Runs once, at the first allocation that reaches a slow path: normally long before a second thread
// exists. If two threads arrive at once, the second continues with the defaults until the first has
// finished. The heap works without this initialisation.
void process_start(void) {
    uint32_t expected = 0;
    if (!atomic_try_state(&process_started, &expected, 1)) return;
    KEEL_ASSERT(size_class_check());
    windows_prepare();
    os_process_record();
    panic_set_output(message_panic);
    if (KEEL_SECURE) panic_set_thread(os_thread_id);
    report_set_output(message_report);
    warn_set_output(message_warning);
    options_parse(os_environment(), report_refused);
    sample_start();
    if (sample_is_on()) guarded_set_output(message_write);
    if (KEEL_DEBUG) debug_start(os_environment(), message_write);
    counted_since.ms = os_clock_ms();
    counted_since.cycles = cycles_now();
    os_thread_exit_register(on_thread_exit);
    os_fork_register(process_before_fork, process_after_fork, after_fork_in_child);
    if (heap_is_real(thread_heap)) os_thread_exit_arm(thread_heap);
}

// Prints one line for each option, at start.
static void report_options(void) {
    char line[96];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "keel: version ");
    text_decimal(&text, KEEL_VERSION_MAJOR);
    text_string(&text, ".");
    text_decimal(&text, KEEL_VERSION_MINOR);
    text_string(&text, ".");
    text_decimal(&text, KEEL_VERSION_PATCH);
    text_string(&text, "\n");
    message_write(line);
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        int64_t value = option_get((enum option)i);
        if (option_name((enum option)i) == NULL) continue;
        text_begin(&text, line, sizeof line);
        text_string(&text, "keel: option ");
        text_string(&text, option_name((enum option)i));
        text_string(&text, value < 0 ? ": -" : ": ");
        text_decimal(&text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
        text_string(&text, "\n");
        message_write(line);
    }
}

__attribute__((constructor)) static void process_constructed(void) {
    process_enter();
    first_begins();
    os_thread_prepare();
    keeper_allow();
    sample_loaded();
    if (KEEL_DEBUG) debug_loaded();
    if (option_get(OPTION_VERBOSE) != 0) report_options();
}

__attribute__((destructor)) static void process_ended(void) {
    if (KEEL_DEBUG) debug_end(message_write);
    if (option_get(OPTION_SHOW_STATS) != 0) report_print(NULL, NULL);
    const struct heap* own = own_heap(); // the default may be another one
    if (KEEL_SECURE && own != NULL) heap_look_last(own);
}
