/* Recordings that a program begins and ends itself, one after another: each file has what was told while it was
 * written, once and in order, whatever threads, handlers and children do meanwhile. */
#include "check.h"
#include "journal/ring.h"
#include "keel/recorder.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what is told: teller t's nth block lies at t << 40 | n << 4, and is `n` bytes long */

enum { HANDLER = 0, BRIEF = 7, TELLERS = 8 }; /* the first and the last: of more than one thread */

static const void* block_of(uint64_t teller, uint64_t number) {
    return (const void*)(teller << 40 | number << 4);
}

static void tell_block(uint64_t teller, uint64_t number) {
    kl_record_alloc(block_of(teller, number), number);
}

static void tell_blocks(uint64_t teller, uint64_t from, uint64_t count) {
    for (uint64_t number = from; number < from + count; number++) tell_block(teller, number);
}

/* ---- what a file says */

struct told {
    uint64_t blocks[TELLERS]; /* so many of each teller, */
    uint64_t first[TELLERS];  /* from this number on */
    uint64_t last[TELLERS];
    uint64_t marks;
    uint64_t threads; /* how often a ring changed hands */
    bool ended;
};

static void check_once(uint64_t teller, uint64_t number) {
    enum { MOST = 1 << 20 };
    static bool seen[2][MOST];
    bool* place = &seen[teller == BRIEF][number];
    CHECK_WITH(number < MOST && !*place, "block %llu of teller %llu", (unsigned long long)number,
               (unsigned long long)teller);
    *place = true;
}

static void read_event(const struct kl_ring_slot* event, struct told* told) {
    enum kl_ring_op op = (enum kl_ring_op)(event->word & 0xff);
    if (op == KL_RING_THREAD_BEGIN) told->threads++;
    if (op == KL_RING_MARK) told->marks++;
    if (op != KL_RING_MALLOC) return;
    uint64_t teller = event->address >> 40;
    uint64_t number = event->size;
    CHECK_WITH(teller < TELLERS && (const void*)event->address == block_of(teller, number),
               "%#llx of %llu bytes", (unsigned long long)event->address,
               (unsigned long long)number);
    if (teller == HANDLER || teller == BRIEF) {
        check_once(teller, number); /* of many threads, so of many rings: in no order */
    } else if (told->blocks[teller] != 0) {
        CHECK_WITH(number == told->last[teller] + 1, "teller %llu: %llu behind %llu",
                   (unsigned long long)teller, (unsigned long long)number,
                   (unsigned long long)told->last[teller]);
    } else {
        told->first[teller] = number;
    }
    told->blocks[teller]++;
    told->last[teller] = number;
}

/* One chunk; returns where the next begins. `next` has the index that each ring must go on with. */
static const char* read_chunk(const char* at, const char* end, uint64_t* next, struct told* told) {
    struct kl_log_chunk chunk;
    CHECK(end - at >= (long)sizeof chunk);
    memcpy(&chunk, at, sizeof chunk);
    at += sizeof chunk;
    CHECK(chunk.magic == KL_CHUNK_MAGIC && (uint64_t)(end - at) >= chunk.bytes && !told->ended);
    told->ended = chunk.kind == KL_CHUNK_END;
    if (chunk.kind == KL_CHUNK_EVENTS) {
        CHECK(chunk.ring < KL_RING_MAX && chunk.bytes % sizeof(struct kl_ring_slot) == 0);
        CHECK_EQUAL(chunk.first, next[chunk.ring]);
        next[chunk.ring] += chunk.bytes / sizeof(struct kl_ring_slot);
        for (uint64_t i = 0; i < chunk.bytes; i += sizeof(struct kl_ring_slot)) {
            struct kl_ring_slot event;
            memcpy(&event, at + i, sizeof event);
            read_event(&event, told);
        }
    }
    return at + chunk.bytes;
}

static struct told read_file(const char* path) {
    static uint64_t next[KL_RING_MAX];
    struct told told = {.ended = false};
    struct stat status;
    int file = open(path, O_RDONLY);
    CHECK_WITH(file >= 0 && fstat(file, &status) == 0, "%s", path);
    const char* text = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(text != MAP_FAILED && status.st_size >= (off_t)sizeof(struct kl_spool));
    close(file);
    memset(next, 0, sizeof next);
    const char* end = text + status.st_size;
    for (const char* at = text + sizeof(struct kl_spool); at < end;)
        at = read_chunk(at, end, next, &told);
    munmap((void*)text, (size_t)status.st_size);
    return told;
}

/* ---- the test's own folder, emptied at its end */

static char folder[64];

static const char* path_of(const char* name) {
    static char path[128];
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/keel-embedded-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool exists(const char* name) {
    return access(path_of(name), F_OK) == 0;
}

static void clean(unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "%u", round);
        unlink(path_of(name));
        strcat(name, ".rings");
        unlink(path_of(name));
    }
    CHECK(rmdir(folder) == 0); /* nothing else was left */
}

/* ---- tests */

TEST(one_recording_after_another) {
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    tell_blocks(1, 0, 100);
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    CHECK_EQUAL(kl_record_start(path_of("1")), EALREADY);
    tell_blocks(1, 100, 100000); /* more than a ring holds */
    kl_record_mark("in the first");
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK(!kl_record_gate.on && !exists("0.rings"));
    tell_blocks(1, 100100, 100);
    CHECK_EQUAL(kl_record_start(path_of("1")), 0);
    tell_blocks(1, 100200, 5);
    kl_record_mark("in the second");
    kl_record_mark("and again");
    CHECK_EQUAL(kl_record_stop(), 0);

    struct told first = read_file(path_of("0"));
    CHECK(first.ended && first.blocks[1] == 100000 && first.first[1] == 100 && first.marks == 1);
    struct told second = read_file(path_of("1"));
    CHECK(second.ended && second.blocks[1] == 5 && second.first[1] == 100200 && second.marks == 2);
    CHECK(first.threads == 1 && second.threads == 1);
    clean(2);
}

TEST(a_start_that_fails_leaves_nothing) {
    CHECK_EQUAL(kl_record_start(NULL), EINVAL);
    CHECK_EQUAL(kl_record_start(""), EINVAL);
    CHECK_EQUAL(kl_record_start(path_of("none/0")), ENOENT);
    CHECK(!kl_record_gate.on);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK_EQUAL(mkdir(path_of("0.rings"), 0700), 0); /* where the rings should lie */
    CHECK_EQUAL(kl_record_start(path_of("0")), EISDIR);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK(!exists("0") && rmdir(path_of("0.rings")) == 0);
    errno = 77;
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    tell_blocks(1, 0, 100000);
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(errno, 77);
    CHECK_EQUAL(read_file(path_of("0")).blocks[1], 100000);
    clean(1);
}

/* Recordings come and go while threads tell. */
static atomic_bool over;
static _Atomic uint64_t handled;

static void on_signal(int number) {
    (void)number;
    tell_block(HANDLER, handled++);
}

static void* tell_on(void* teller) {
    for (uint64_t number = 0; !over; number++) tell_block((uintptr_t)teller, number);
    return NULL;
}

/* A thread that lives for a few events only. */
static void* tell_few(void* from) {
    tell_blocks(BRIEF, (uintptr_t)from, 10);
    return NULL;
}

static unsigned storm(unsigned rounds, unsigned tellers) {
    pthread_t threads[TELLERS];
    for (uintptr_t i = 1; i <= tellers; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, tell_on, (void*)i), 0);
    unsigned few = 0;
    for (unsigned round = 0; round < rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "%u", round);
        CHECK_EQUAL(kl_record_start(path_of(name)), 0);
        for (unsigned i = 0; i < 10; i++, few += 10) {
            pthread_t thread;
            CHECK_EQUAL(pthread_create(&thread, NULL, tell_few, (void*)(uintptr_t)few), 0);
            pthread_join(thread, NULL);
        }
        sleep_ms(round % 3);
        CHECK_EQUAL(kl_record_stop(), 0);
    }
    over = true;
    for (unsigned i = 1; i <= tellers; i++) pthread_join(threads[i], NULL);
    return few;
}

static void check_storm(unsigned rounds, unsigned tellers, unsigned few) {
    uint64_t next[TELLERS] = {0};
    uint64_t by_few = 0;
    uint64_t by_many = 0;
    for (unsigned round = 0; round < rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "%u", round);
        struct told told = read_file(path_of(name));
        CHECK(told.ended && !exists("0.rings"));
        for (unsigned i = 1; i <= tellers; i++) {
            if (told.blocks[i] == 0) continue;
            CHECK_WITH(told.first[i] >= next[i], "round %u, teller %u", round, i);
            next[i] = told.last[i] + 1;
            by_many += told.blocks[i];
        }
        by_few += told.blocks[BRIEF];
    }
    CHECK_EQUAL(by_few, few);
    CHECK(by_many > 0);
}

TEST(threads_that_live_across_recordings) {
    enum { ROUNDS = 40, MANY = 3 };
    path_of("");
    unsigned few = storm(ROUNDS, MANY);
    check_storm(ROUNDS, MANY, few);
    clean(ROUNDS);
}

TEST(handlers_that_tell_across_recordings) {
    enum { ROUNDS = 40 };
    path_of("");
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK_EQUAL(sigaction(SIGVTALRM, &action, NULL), 0);
    struct itimerval often = {{0, 200}, {0, 200}};
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &often, NULL), 0);
    unsigned few = storm(ROUNDS, 1);
    often = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    check_storm(ROUNDS, 1, few);
    CHECK(handled > 0);
    clean(ROUNDS);
}

TEST(a_forked_child_is_not_recorded_and_may_record_itself) {
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    tell_blocks(1, 0, 10);
    pid_t child = fork();
    if (child == 0) {
        CHECK(!kl_record_gate.on);
        tell_blocks(2, 0, 10);
        CHECK_EQUAL(kl_record_stop(), EINVAL);
        CHECK_EQUAL(kl_record_start(path_of("1")), 0);
        tell_blocks(3, 0, 10);
        CHECK_EQUAL(kl_record_stop(), 0);
        _exit(0);
    }
    CHECK_CHILD(child);
    tell_blocks(1, 10, 10);
    CHECK_EQUAL(kl_record_stop(), 0);
    struct told own = read_file(path_of("0"));
    CHECK(own.ended && own.blocks[1] == 20 && own.blocks[2] == 0 && own.blocks[3] == 0);
    struct told its = read_file(path_of("1"));
    CHECK(its.ended && its.blocks[1] == 0 && its.blocks[2] == 0 && its.blocks[3] == 10);
    clean(2);
}

TEST(a_full_file_system_ends_one_recording_only) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit small = {1 * MIB, limit.rlim_max};
    for (unsigned round = 0; round < 4; round += 2) {
        CHECK_EQUAL(kl_record_start(path_of(round == 0 ? "0" : "2")), 0);
        CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
        tell_blocks(1, 0, 200000);
        CHECK(!kl_record_gate.on); /* by itself */
        CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
        if (round == 0) CHECK_EQUAL(kl_record_stop(), ENOSPC);
        if (round == 0) CHECK_EQUAL(kl_record_stop(), EINVAL);
        CHECK_EQUAL(kl_record_start(path_of(round == 0 ? "1" : "3")), 0);
        tell_blocks(2, 0, 10);
        CHECK_EQUAL(kl_record_stop(), 0);
        struct told told = read_file(path_of(round == 0 ? "1" : "3"));
        CHECK(told.ended && told.blocks[1] == 0 && told.blocks[2] == 10);
        CHECK(exists(round == 0 ? "0.rings" : "2.rings")); /* for import */
    }
    clean(4);
}

#ifndef __SANITIZE_ADDRESS__ /* ASan cannot follow the unwinding of a cancelled thread */
static atomic_bool passed;

static void* tell_cancelled(void* unused) {
    pthread_cancel(pthread_self());
    tell_blocks(1, 0, 100000); /* several rings full: each time the thread writes a file */
    passed = true;
    pthread_testcancel();
    return unused;
}

TEST(nothing_here_is_a_point_of_cancellation) {
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    pthread_t thread;
    void* result = NULL;
    CHECK_EQUAL(pthread_create(&thread, NULL, tell_cancelled, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(passed && result == PTHREAD_CANCELED);
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(read_file(path_of("0")).blocks[1], 100000);
    clean(1);
}
#endif
