#include "allocator/api/process.h"
#include "allocator/api/statistics.h"
#include "allocator/heap/pool.h"
#include "allocator/heap/relief.h"
#include "allocator/keeper/keeper.h"
#include "base/counters.h"
#include "base/cycles.h"
#include "base/options.h"
#include "base/panic.h"
#include "os/process.h"
#include "os/thread.h"

atomic_state process_started;

static void on_thread_exit(void* heap) {
    (void)heap;
    heap_leave();
}

// Once, at the first allocation that reaches a slow path: normally long before a second thread
// exists. Should two threads come at once, the one that comes second goes on with the defaults
// until the first is through; the heap works without any of this.
void process_start(void) {
    uint32_t expected = 0;
    if (!atomic_try_state(&process_started, &expected, 1)) return;
    panic_set_output(os_abort);
    options_parse(os_environment());
    counters.started_ms = os_clock_ms();
    counters.started_cycles = cycles_now();
    (void)os_thread_exit_register(on_thread_exit);
    if (heap_is_real(thread_heap)) os_thread_exit_arm(thread_heap);
}

static void before_fork(void) {
    relief_before_fork();
    heap_pool_before_fork();
}
static void after_fork(void) {
    heap_pool_after_fork();
    relief_after_fork();
}
static void after_fork_in_child(void) {
    heap_pool_after_fork();
    relief_after_fork();
    keeper_forget();
}

// Registering for fork may allocate, so it waits for the constructors: before them nobody forks.
__attribute__((constructor)) static void process_constructed(void) {
    process_enter();
    os_fork_register(before_fork, after_fork, after_fork_in_child);
    keeper_allow();
}

__attribute__((destructor)) static void process_ended(void) {
    if (options.stats_at_exit) statistics_print(NULL, NULL);
}
