// One table of every public operation: the largest number of steps, system calls and waits for
// locks that one call may take, in states that make work for it. The bounds are the same in every
// state, so no call does work that grows with the heap. Another table: the longest hold of each
// lock.
//
//     bounds              checks; prints what was measured
//     bounds --table      prints the table of docs/reference/bounds.md
#include "allocator/alloc/alloc.h"
#include "allocator/heap/pool.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/watch.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/reserve.h"
#include "base/options.h"
#include "check.h"
#include "count.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include "states.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum operation {
    MALLOC_SMALL,
    MALLOC_MEDIUM,
    MALLOC_LARGE,
    MALLOC_JUMBO,
    MALLOC_REFUSED,
    CALLOC,
    ALIGNED,
    ALIGNED_LARGE,
    FREE,
    FREE_REMOTE,
    FREE_LARGE,
    FREE_JUMBO,
    REALLOC_FITS,
    REALLOC_SMALL,
    REALLOC_LARGE,
    USABLE_SIZE,
    CONTAINS,
    HEAP_MALLOC,
    HEAP_FREE,
    HEAP_NEW,
    HEAP_DELETE,
    THREAD_BEGIN,
    THREAD_END,
    THREAD_IDLE,
    FORK,
    FORK_CHILD,
    OPERATIONS
};

enum lock { LOCK_POOL, LOCK_WATCH, LOCK_RELIEF, LOCKS };
enum mode { KEEPER, ALONE, MODES }; // the keeper does the maintenance, or the thread

#define NO_BOUND UINT32_MAX
#define ALL_LOCKS ((1u << LOCKS) - 1)

struct bound {
    const char* name;
    uint32_t steps[MODES], calls[MODES];
    unsigned locks; // that a call may wait for: 1 << enum lock
};

static const struct bound bounds[OPERATIONS] = {
    [MALLOC_SMALL] = {"malloc, up to 1 KiB", {60000, 60000}, {16, 16}, 0},
    [MALLOC_MEDIUM] = {"malloc, up to 64 KiB", {60000, 60000}, {16, 16}, 0},
    [MALLOC_LARGE] = {"malloc, up to 4 MiB", {60000, 60000}, {16, 16}, 0},
    [MALLOC_JUMBO] = {"malloc, 4 to 80 MiB", {60000, 60000}, {16, 16}, 0},
    [MALLOC_REFUSED] = {"malloc that fails", {NO_BOUND, NO_BOUND}, {NO_BOUND, NO_BOUND}, ALL_LOCKS},
    [CALLOC] = {"calloc, up to 64 KiB", {60000, 60000}, {16, 16}, 0},
    [ALIGNED] = {"aligned malloc, alignment up to 64 KiB", {60000, 60000}, {16, 16}, 0},
    [ALIGNED_LARGE] = {"aligned malloc, alignment up to 2 MiB", {60000, 60000}, {12, 12}, 0},
    [FREE] = {"free, own page", {2000, 3000}, {8, 10}, 0},
    [FREE_REMOTE] = {"free, block of another thread", {500, 1200}, {0, 2}, 0},
    [FREE_LARGE] = {"free, up to 4 MiB", {1500, 4000}, {12, 12}, 0},
    [FREE_JUMBO] = {"free, 4 to 80 MiB", {20000, 20000}, {44, 44}, 0},
    [REALLOC_FITS] = {"realloc, same usable size", {80, 80}, {0, 0}, 0},
    [REALLOC_SMALL] = {"realloc, up to 64 KiB", {60000, 60000}, {16, 16}, 0},
    [REALLOC_LARGE] = {"realloc, up to 4 MiB", {60000, 60000}, {16, 16}, 0},
    [USABLE_SIZE] = {"kl_usable_size", {20, 20}, {0, 0}, 0},
    [CONTAINS] = {"kl_contains", {20, 20}, {0, 0}, 0},
    [HEAP_MALLOC] = {"kl_heap_malloc, up to 4 KiB", {60000, 60000}, {16, 16}, 0},
    [HEAP_FREE] = {"free of such a block", {2000, 3000}, {8, 10}, 0},
    [HEAP_NEW] = {"kl_heap_new", {80, 80}, {1, 1}, 0},
    [HEAP_DELETE] = {"kl_heap_delete", {6000, 7000}, {4, 6}, 0},
    [THREAD_BEGIN] = {"first malloc of a thread", {60000, 60000}, {16, 16}, 1u << LOCK_POOL},
    [THREAD_END] = {"end of a thread", {600, 600}, {0, 0}, 1u << LOCK_POOL},
    [THREAD_IDLE] = {"kl_thread_idle", {13000, 13000}, {4, 6}, 0},
    [FORK] = {"fork, in the parent", {600, 600}, {0, 0}, ALL_LOCKS},
    [FORK_CHILD] = {"fork, in the child", {NO_BOUND, NO_BOUND}, {2, 2}, ALL_LOCKS},
};

static const struct {
    const char* name;
    uint32_t steps; // while any thread but one that forks holds it
    void (*take)(void);
    void (*release)(void);
} locks[LOCKS] = {
    [LOCK_POOL] = {"pool lock", 20, heap_pool_before_fork, heap_pool_after_fork},
    [LOCK_WATCH] = {"watch lock", 20, watch_before_fork, watch_after_fork},
    [LOCK_RELIEF] = {"relief lock", 7000, relief_pause, relief_resume},
};

struct worst {
    uint64_t steps[MODES], calls[MODES];
    unsigned locks;
    unsigned state[MODES]; // of the most steps
};
static struct shared {
    struct worst worst[OPERATIONS];
    uint64_t held[LOCKS]; // steps
} * shared;

enum { NO_LOCK = LOCKS };
static unsigned state_now;
static unsigned lock_now = NO_LOCK; // that another thread holds
static enum mode mode;
static bool keeper_works;

// --- Another thread holds a lock, until this thread waits for it ---------------------------------

enum { FREE_LOCK, WANTED, HELD, UNWANTED };
static _Atomic unsigned held_state;

static void* hold(void* unused) {
    for (;;) {
        while (held_state != WANTED) sched_yield();
        locks[lock_now].take();
        held_state = HELD;
        while (held_state != UNWANTED) sched_yield();
        locks[lock_now].release();
        held_state = FREE_LOCK;
    }
    return unused;
}

static void on_wait(void) {
    held_state = UNWANTED;
}

static void begin(void) {
    if (lock_now != NO_LOCK && held_state != HELD) {
        while (held_state != FREE_LOCK) sched_yield();
        held_state = WANTED;
        while (held_state != HELD) sched_yield();
    }
    count_begin();
}

static void end(enum operation operation) {
    struct cost cost = count_end();
    struct worst* worst = &shared->worst[operation];
    if (lock_now != NO_LOCK) {
        if (cost.waits > 0) worst->locks |= 1u << lock_now;
        return;
    }
    if (keeper_works) return; // it may hold a lock, and its work is not reproducible
    CHECK(cost.waits == 0);
    if (cost.calls > worst->calls[mode]) worst->calls[mode] = cost.calls;
    if (cost.steps <= worst->steps[mode]) return;
    worst->steps[mode] = cost.steps;
    worst->state[mode] = state_now;
}

#define COUNT(operation, statement)                                                                \
    do {                                                                                           \
        begin();                                                                                   \
        statement;                                                                                 \
        end(operation);                                                                            \
    } while (0)

// --- The operations ------------------------------------------------------------------------------

enum { SLOTS = 4000, ROUNDS = 3, LARGE_SLOTS = 200 };
static void* slots[SLOTS];

static uint64_t random_state;
static size_t random_below(size_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % below;
}

static void work_small(enum operation operation, size_t least, size_t most) {
    for (unsigned i = 0; i < ROUNDS * SLOTS; i++) {
        void** slot = &slots[random_below(SLOTS)];
        size_t size = least + random_below(most - least);
        if (*slot != NULL) COUNT(FREE, kl_free(*slot));
        if (operation == CALLOC)
            COUNT(operation, *slot = kl_calloc(1, size));
        else if (operation == ALIGNED)
            COUNT(operation, *slot = kl_aligned_alloc((size_t)16 << random_below(13), size));
        else
            COUNT(operation, *slot = kl_malloc(size));
        if (*slot == NULL) continue;
        COUNT(USABLE_SIZE, (void)kl_usable_size(*slot));
        COUNT(CONTAINS, (void)kl_contains(*slot));
        size_t usable = kl_usable_size(*slot);
        COUNT(REALLOC_FITS, CHECK(kl_realloc(*slot, usable) == *slot));
        if (i % 4 == 0) {
            void* resized;
            COUNT(REALLOC_SMALL, resized = kl_realloc(*slot, least + random_below(most - least)));
            if (resized != NULL) *slot = resized;
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        COUNT(FREE, kl_free(slots[i]));
        slots[i] = NULL;
    }
}

// What a keeper would do that has learnt nothing: a thread then looks at the blocks that it frees.
static void keeper_looks(void) {
    if (mode != KEEPER) return;
    fill_forget();
}

static void work_large(enum operation operation, enum operation freed, size_t least, size_t most) {
    for (unsigned i = 0; i < 2 * LARGE_SLOTS; i++) {
        if (i % 8 == 0) keeper_looks();
        void** slot = &slots[random_below(LARGE_SLOTS)];
        size_t size = least + random_below(most - least);
        if (*slot != NULL) COUNT(freed, kl_free(*slot));
        if (operation == ALIGNED_LARGE)
            COUNT(operation, *slot = kl_aligned_alloc((size_t)131072 << random_below(5), size));
        else
            COUNT(operation, *slot = kl_malloc(size));
        if (*slot == NULL || operation != MALLOC_LARGE || i % 2 == 0) continue;
        void* resized;
        COUNT(REALLOC_LARGE, resized = kl_realloc(*slot, least + random_below(most - least)));
        if (resized != NULL) *slot = resized;
    }
    for (unsigned i = 0; i < LARGE_SLOTS; i++) {
        COUNT(freed, kl_free(slots[i]));
        slots[i] = NULL;
    }
}

// This thread frees as another one.
static void work_remote(void) {
    struct heap* own = thread_heap;
    for (unsigned i = 0; i < SLOTS; i++) slots[i] = kl_malloc(8 + random_below(6000));
    become_new_thread();
    COUNT(THREAD_BEGIN, kl_free(kl_malloc(1)));
    for (unsigned i = 0; i < SLOTS; i++)
        COUNT(FREE_REMOTE, kl_free(slots[(size_t)i * 7919 % SLOTS]));
    for (unsigned i = 0; i < SLOTS; i++) slots[i] = kl_malloc(8 + random_below(6000));
    for (unsigned i = 0; i < SLOTS; i++) {
        kl_free(slots[i]);
        slots[i] = NULL;
        if (i % 100 == 0) COUNT(THREAD_IDLE, kl_thread_idle());
    }
    COUNT(THREAD_END, heap_leave());
    thread_heap = own;
    COUNT(THREAD_IDLE, kl_thread_idle());
}

static void work_user_heap(void) {
    kl_heap_t* heap;
    COUNT(HEAP_NEW, heap = kl_heap_new());
    if (heap == NULL) return;
    for (unsigned i = 0; i < SLOTS; i++)
        COUNT(HEAP_MALLOC, slots[i] = kl_heap_malloc(heap, 1 + random_below(4096)));
    for (unsigned i = 0; i < SLOTS; i++) {
        COUNT(HEAP_FREE, kl_free(slots[i]));
        slots[i] = NULL;
    }
    COUNT(HEAP_DELETE, kl_heap_delete(heap));
}

static void work_fork(void) {
    count_holds(false);
    begin();
    pid_t child = fork();
    end(child == 0 ? FORK_CHILD : FORK);
    count_holds(true);
    CHECK(child >= 0);
    if (child == 0) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// The system refuses everything, and most large blocks are too large for the gaps.
static void work_exhausted(void) {
    enum { REFUSED = 10 };
    limit_address_space(0);
    for (size_t size = (size_t)4 << 20; size > 65536; size /= 2)
        while (kl_malloc(size - 1000) != NULL) continue;
    for (unsigned i = 0; i < REFUSED; i++) {
        void* block;
        COUNT(MALLOC_REFUSED, block = kl_malloc(65537 + random_below(4000000 - 65537)));
        COUNT(FREE_LARGE, kl_free(block));
    }
}

static void work(void) {
    // A limit makes allocations fail: these are counted alone.
    bool refuses = state_now == STATE_LIMIT;
    bool is_scarce = state_now == STATE_SCARCE;
    work_fork();
    work_small(refuses ? MALLOC_REFUSED : MALLOC_SMALL, 1, 1024);
    work_small(refuses ? MALLOC_REFUSED : MALLOC_MEDIUM, 1, 65536);
    if (refuses) return;
    work_small(CALLOC, 1, 65536);
    work_small(ALIGNED, 1, 32768);
    work_large(MALLOC_LARGE, FREE_LARGE, 65537, 4000000);
    work_large(ALIGNED_LARGE, FREE_LARGE, 1, 1000000);
    if (!is_scarce) work_large(MALLOC_JUMBO, FREE_JUMBO, (size_t)4 << 20, (size_t)80 << 20);
    work_remote();
    work_user_heap();
    work_fork();
    if (is_scarce) work_exhausted();
}

// --- One process for each state and mode ---------------------------------------------------------

static void note_holds(void) {
    count_holds(false);
    for (unsigned i = 0; i < LOCKS; i++) {
        locks[i].take();
        uint64_t steps = count_longest_hold(count_last_lock());
        if (steps > shared->held[i]) shared->held[i] = steps;
        locks[i].release();
    }
}

static void run_state(unsigned state, enum mode with, unsigned lock) {
    pthread_t holder;
    state_now = state;
    mode = with;
    count_holds(true);
    kl_free(kl_malloc(1));
    states[state].prepare();
    policy_set_keeper(mode == KEEPER); // what threads do then; the keeper itself does not run
    if (lock != NO_LOCK) {
        count_on_wait = on_wait;
        lock_now = lock;
        CHECK(pthread_create(&holder, NULL, hold, NULL) == 0);
    }
    work();
    if (lock == NO_LOCK) note_holds();
    _exit(0);
}

// The keeper works too: counts how long it holds locks.
static void run_with_keeper(unsigned state) {
    state_now = state;
    count_holds(true);
    kl_free(kl_malloc(1));
    states[state].prepare();
    keeper_works = true;
    option_set(OPTION_KEEPER, KEEPER_ALWAYS);
    CHECK(kl_keeper_start());
    for (unsigned i = 0; i < 20; i++) {
        work_fork();
        work_remote();
        (void)usleep(20000);
    }
    note_holds();
    _exit(0);
}

static void wait_for(pid_t child, unsigned state) {
    int status;
    CHECK(child >= 0 && waitpid(child, &status, 0) == child);
    if (status == 0) return;
    fprintf(stderr, "state \"%s\": status 0x%x\n", states[state].name, (unsigned)status);
    exit(1);
}

static void run_apart(unsigned state, enum mode with, unsigned lock) {
    pid_t child = fork();
    if (child == 0) run_state(state, with, lock);
    wait_for(child, state);
}

static void run_all(void) {
    for (unsigned state = 0; state < STATES; state++) {
        for (enum mode with = KEEPER; with < MODES; with++) run_apart(state, with, NO_LOCK);
        pid_t child = fork();
        if (child == 0) run_with_keeper(state);
        wait_for(child, state);
    }
    for (unsigned lock = 0; lock < LOCKS; lock++) {
        for (enum mode with = KEEPER; with < MODES; with++) {
            run_apart(STATE_NEW, with, lock);
            run_apart(STATE_HEAPS, with, lock);
        }
    }
}

// --- Tables --------------------------------------------------------------------------------------

static const char* number(char* text, uint64_t value) {
    if (value == NO_BOUND)
        (void)strcpy(text, "no bound");
    else if (value < 1000)
        (void)sprintf(text, "%lu", (unsigned long)value);
    else if (value >= 1000000)
        (void)sprintf(text, "%lu,%03lu,%03lu", (unsigned long)value / 1000000,
                      (unsigned long)value / 1000 % 1000, (unsigned long)value % 1000);
    else
        (void)sprintf(text, "%lu,%03lu", (unsigned long)value / 1000, (unsigned long)value % 1000);
    return text;
}

static void print_table(bool measured) {
    printf("| operation | steps | steps without a keeper | calls | calls without a keeper | "
           "may wait for |\n| --- | --- | --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < OPERATIONS; i++) {
        const struct worst* worst = &shared->worst[i];
        printf("| %s", bounds[i].name);
        for (unsigned column = 0; column < 2 * MODES; column++) {
            char text[32];
            enum mode with = column % MODES;
            bool steps = column < MODES;
            uint64_t bound = steps ? bounds[i].steps[with] : bounds[i].calls[with];
            uint64_t most = steps ? worst->steps[with] : worst->calls[with];
            printf(" | %s", number(text, measured ? most : bound));
            if (measured && steps) printf(" (%s)", states[worst->state[with]].name);
        }
        const char* separator = " | ";
        unsigned waits = measured ? worst->locks : bounds[i].locks;
        for (unsigned lock = 0; lock < LOCKS; lock++) {
            if ((waits >> lock & 1) == 0) continue;
            printf("%s%s", separator, locks[lock].name);
            separator = ", ";
        }
        printf("%s |\n", waits == 0 ? " | none" : "");
    }
    printf("\n| lock | steps while it is held |\n| --- | --- |\n");
    for (unsigned i = 0; i < LOCKS; i++) {
        char text[32];
        printf("| %s | %s |\n", locks[i].name,
               number(text, measured ? shared->held[i] : locks[i].steps));
    }
}

static unsigned check(void) {
    unsigned faults = 0;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        const struct worst* worst = &shared->worst[i];
        for (enum mode with = KEEPER; with < MODES; with++) {
            bool holds = worst->steps[with] > 0 && worst->steps[with] <= bounds[i].steps[with] &&
                         worst->calls[with] <= bounds[i].calls[with];
            if (holds) continue;
            fprintf(stderr, "%s: %lu steps, %lu calls, in the state \"%s\"%s\n", bounds[i].name,
                    (unsigned long)worst->steps[with], (unsigned long)worst->calls[with],
                    states[worst->state[with]].name, with == ALONE ? ", without a keeper" : "");
            faults++;
        }
        if ((worst->locks & ~bounds[i].locks) == 0) continue;
        fprintf(stderr, "%s: waits for locks %x\n", bounds[i].name, worst->locks);
        faults++;
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        if (shared->held[i] > 0 && shared->held[i] <= locks[i].steps) continue;
        fprintf(stderr, "%s: held for %lu steps\n", locks[i].name, (unsigned long)shared->held[i]);
        faults++;
    }
    return faults;
}

int main(int argc, char** argv) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    if (argc > 1 && strcmp(argv[1], "--table") == 0) {
        print_table(false);
        return 0;
    }
    count_holds(false); // this process only forks
    run_all();
    print_table(true);
    return check() == 0 ? 0 : 1;
}
