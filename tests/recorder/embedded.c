/* Successive recordings that a program begins and ends itself. Each file has the calls that were
 * reported during its recording, once and in order, whatever threads, handlers and children do. */
#include "check.h"
#include "journal/ring.h"
#include "keel/recorder.h"
#include "memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef _WIN32
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#endif

/* ---- reported blocks: block n of reporter r has the address r << 40 | n << 4 and `n` bytes */

/* HANDLER and BRIEF each stand for several threads. */
enum { HANDLER = 0, BRIEF = 7, REPORTERS = 8 };

static const void* block_of(uint64_t reporter, uint64_t number) {
    return (const void*)(reporter << 40 | number << 4);
}

static void report_block(uint64_t reporter, uint64_t number) {
    kl_record_alloc(block_of(reporter, number), number);
}

static void report_blocks(uint64_t reporter, uint64_t from, uint64_t count) {
    for (uint64_t number = from; number < from + count; number++) report_block(reporter, number);
}

/* ---- contents of a file */

struct contents {
    uint64_t blocks[REPORTERS]; /* number of blocks of each reporter */
    uint64_t first[REPORTERS];  /* number of its first block, */
    uint64_t last[REPORTERS];   /* and of its last */
    uint64_t marks;
    uint64_t threads; /* number of times that a thread took a ring */
    bool ended;
};

static void check_once(uint64_t reporter, uint64_t number) {
    enum { MOST = 1 << 20 };
    static bool seen[2][MOST];
    bool* place = &seen[reporter == BRIEF][number];
    CHECK_WITH(number < MOST && !*place, "block %llu of reporter %llu", (unsigned long long)number,
               (unsigned long long)reporter);
    *place = true;
}

static void read_event(const struct kl_ring_slot* event, struct contents* contents) {
    enum kl_ring_op op = (enum kl_ring_op)(event->word & 0xff);
    if (op == KL_RING_THREAD_BEGIN) contents->threads++;
    if (op == KL_RING_MARK) contents->marks++;
    if (op != KL_RING_MALLOC) return;
    uint64_t reporter = event->address >> 40;
    uint64_t number = event->size;
    CHECK_WITH(reporter < REPORTERS && (const void*)event->address == block_of(reporter, number),
               "%#llx of %llu bytes", (unsigned long long)event->address,
               (unsigned long long)number);
    if (reporter == HANDLER || reporter == BRIEF) {
        check_once(reporter, number); /* of several threads and rings, so unordered */
    } else if (contents->blocks[reporter] != 0) {
        CHECK_WITH(number == contents->last[reporter] + 1, "reporter %llu: %llu after %llu",
                   (unsigned long long)reporter, (unsigned long long)number,
                   (unsigned long long)contents->last[reporter]);
    } else {
        contents->first[reporter] = number;
    }
    contents->blocks[reporter]++;
    contents->last[reporter] = number;
}

/* Reads one chunk; returns the position of the next. `next`: the expected index of each ring. */
static const char* read_chunk(const char* at, const char* end, uint64_t* next,
                              struct contents* contents) {
    struct kl_log_chunk chunk;
    CHECK(end - at >= (long)sizeof chunk);
    memcpy(&chunk, at, sizeof chunk);
    at += sizeof chunk;
    CHECK(chunk.magic == KL_CHUNK_MAGIC && (uint64_t)(end - at) >= chunk.bytes && !contents->ended);
    contents->ended = chunk.kind == KL_CHUNK_END;
    if (chunk.kind == KL_CHUNK_EVENTS) {
        CHECK(chunk.ring < KL_RING_MAX && chunk.bytes % sizeof(struct kl_ring_slot) == 0);
        CHECK_EQUAL(chunk.first, next[chunk.ring]);
        next[chunk.ring] += chunk.bytes / sizeof(struct kl_ring_slot);
        for (uint64_t i = 0; i < chunk.bytes; i += sizeof(struct kl_ring_slot)) {
            struct kl_ring_slot event;
            memcpy(&event, at + i, sizeof event);
            read_event(&event, contents);
        }
    }
    return at + chunk.bytes;
}

static struct contents read_file(const char* path) {
    static uint64_t next[KL_RING_MAX];
    struct contents contents = {.ended = false};
    FILE* file = fopen(path, "rb");
    CHECK_WITH(file != NULL && fseek(file, 0, SEEK_END) == 0, "%s", path);
    long length = ftell(file);
    CHECK(length >= (long)sizeof(struct kl_spool) && fseek(file, 0, SEEK_SET) == 0);
    char* text = malloc((size_t)length);
    CHECK(text != NULL && fread(text, 1, (size_t)length, file) == (size_t)length);
    fclose(file);
    memset(next, 0, sizeof next);
    const char* end = text + length;
    for (const char* at = text + sizeof(struct kl_spool); at < end;)
        at = read_chunk(at, end, next, &contents);
    free(text);
    return contents;
}

/* ---- the folder of the test, removed at its end */

#ifdef _WIN32
#define TEMPORARY ""                     /* beside the program */
enum { IS_FOLDER = EACCES, TURNS = 10 }; /* Wine is slow */
#else
#define TEMPORARY "/tmp/"
enum { IS_FOLDER = EISDIR, TURNS = 40 };
#endif
static char folder[64];

static const char* path_of(const char* name) {
    static char path[128];
    if (folder[0] == '\0') {
        strcpy(folder, TEMPORARY "keel-embedded-XXXXXX");
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
    CHECK(rmdir(folder) == 0); /* no other file is left */
}

/* ---- tests */

TEST(successive_recordings) {
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    report_blocks(1, 0, 100);
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    CHECK_EQUAL(kl_record_start(path_of("1")), EALREADY);
    report_blocks(1, 100, 100000); /* more than a ring holds */
    kl_record_mark("in the first");
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK(!kl_record_gate.on && !exists("0.rings"));
    report_blocks(1, 100100, 100);
    CHECK_EQUAL(kl_record_start(path_of("1")), 0);
    report_blocks(1, 100200, 5);
    kl_record_mark("in the second");
    kl_record_mark("and again");
    CHECK_EQUAL(kl_record_stop(), 0);

    struct contents first = read_file(path_of("0"));
    CHECK(first.ended && first.blocks[1] == 100000 && first.first[1] == 100 && first.marks == 1);
    struct contents second = read_file(path_of("1"));
    CHECK(second.ended && second.blocks[1] == 5 && second.first[1] == 100200 && second.marks == 2);
    CHECK(first.threads == 1 && second.threads == 1);
    clean(2);
}

TEST(failed_start_leaves_no_file) {
    CHECK_EQUAL(kl_record_start(NULL), EINVAL);
    CHECK_EQUAL(kl_record_start(""), EINVAL);
    CHECK_EQUAL(kl_record_start(path_of("none/0")), ENOENT);
    CHECK(!kl_record_gate.on);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK_EQUAL(mkdir(path_of("0.rings"), 0700), 0); /* the path of the rings */
    CHECK_EQUAL(kl_record_start(path_of("0")), IS_FOLDER);
    CHECK_EQUAL(kl_record_stop(), EINVAL);
    CHECK(!exists("0") && rmdir(path_of("0.rings")) == 0);
    errno = 77;
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    report_blocks(1, 0, 100000);
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(errno, 77);
    CHECK_EQUAL(read_file(path_of("0")).blocks[1], 100000);
    clean(1);
}

/* Successive recordings while threads report blocks. */
static atomic_bool over;
static void* report_on(void* reporter) {
    for (uint64_t number = 0; !over; number++) report_block((uintptr_t)reporter, number);
    return NULL;
}

/* A thread with a few events only. */
static void* report_few(void* from) {
    report_blocks(BRIEF, (uintptr_t)from, 10);
    return NULL;
}

static unsigned storm(unsigned rounds, unsigned reporters) {
    pthread_t threads[REPORTERS];
    for (uintptr_t i = 1; i <= reporters; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, report_on, (void*)i), 0);
    unsigned few = 0;
    for (unsigned round = 0; round < rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "%u", round);
        CHECK_EQUAL(kl_record_start(path_of(name)), 0);
        for (unsigned i = 0; i < 10; i++, few += 10) {
            pthread_t thread;
            CHECK_EQUAL(pthread_create(&thread, NULL, report_few, (void*)(uintptr_t)few), 0);
            pthread_join(thread, NULL);
        }
        sleep_ms(round % 3);
        CHECK_EQUAL(kl_record_stop(), 0);
    }
    over = true;
    for (unsigned i = 1; i <= reporters; i++) pthread_join(threads[i], NULL);
    return few;
}

static void check_storm(unsigned rounds, unsigned reporters, unsigned few) {
    uint64_t next[REPORTERS] = {0};
    uint64_t by_few = 0;
    uint64_t by_many = 0;
    for (unsigned round = 0; round < rounds; round++) {
        char name[32];
        snprintf(name, sizeof name, "%u", round);
        struct contents contents = read_file(path_of(name));
        CHECK(contents.ended && !exists("0.rings"));
        for (unsigned i = 1; i <= reporters; i++) {
            if (contents.blocks[i] == 0) continue;
            CHECK_WITH(contents.first[i] >= next[i], "round %u, reporter %u", round, i);
            next[i] = contents.last[i] + 1;
            by_many += contents.blocks[i];
        }
        by_few += contents.blocks[BRIEF];
    }
    CHECK_EQUAL(by_few, few);
    CHECK(by_many > 0);
}

TEST(threads_that_run_across_recordings) {
    enum { ROUNDS = TURNS, MANY = 3 };
    path_of("");
    unsigned few = storm(ROUNDS, MANY);
    check_storm(ROUNDS, MANY, few);
    clean(ROUNDS);
}

#ifndef _WIN32 /* which has no signals, forks, limits of files and cancellation */
static _Atomic uint64_t handled;

static void on_signal(int number) {
    (void)number;
    report_block(HANDLER, handled++);
}

TEST(handlers_that_report_across_recordings) {
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

TEST(forked_child_is_not_recorded_and_may_record_itself) {
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    report_blocks(1, 0, 10);
    pid_t child = fork();
    if (child == 0) {
        CHECK(!kl_record_gate.on);
        report_blocks(2, 0, 10);
        CHECK_EQUAL(kl_record_stop(), EINVAL);
        CHECK_EQUAL(kl_record_start(path_of("1")), 0);
        report_blocks(3, 0, 10);
        CHECK_EQUAL(kl_record_stop(), 0);
        _exit(0);
    }
    CHECK_CHILD(child);
    report_blocks(1, 10, 10);
    CHECK_EQUAL(kl_record_stop(), 0);
    struct contents own = read_file(path_of("0"));
    CHECK(own.ended && own.blocks[1] == 20 && own.blocks[2] == 0 && own.blocks[3] == 0);
    struct contents its = read_file(path_of("1"));
    CHECK(its.ended && its.blocks[1] == 0 && its.blocks[2] == 0 && its.blocks[3] == 10);
    clean(2);
}

TEST(full_file_system_ends_one_recording_only) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit small = {1 * MIB, limit.rlim_max};
    for (unsigned round = 0; round < 4; round += 2) {
        CHECK_EQUAL(kl_record_start(path_of(round == 0 ? "0" : "2")), 0);
        CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
        report_blocks(1, 0, 200000);
        CHECK(!kl_record_gate.on); /* it stopped by itself */
        CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
        if (round == 0) CHECK_EQUAL(kl_record_stop(), ENOSPC);
        if (round == 0) CHECK_EQUAL(kl_record_stop(), EINVAL);
        CHECK_EQUAL(kl_record_start(path_of(round == 0 ? "1" : "3")), 0);
        report_blocks(2, 0, 10);
        CHECK_EQUAL(kl_record_stop(), 0);
        struct contents contents = read_file(path_of(round == 0 ? "1" : "3"));
        CHECK(contents.ended && contents.blocks[1] == 0 && contents.blocks[2] == 10);
        CHECK(exists(round == 0 ? "0.rings" : "2.rings")); /* for import */
    }
    clean(4);
}

#ifndef __SANITIZE_ADDRESS__ /* ASan cannot follow the unwinding of a cancelled thread */
static atomic_bool passed;

static void* report_cancelled(void* unused) {
    pthread_cancel(pthread_self());
    report_blocks(1, 0, 100000); /* several full rings; the thread writes each to the file */
    passed = true;
    pthread_testcancel();
    return unused;
}

TEST(recording_has_no_cancellation_point) {
    CHECK_EQUAL(kl_record_start(path_of("0")), 0);
    pthread_t thread;
    void* result = NULL;
    CHECK_EQUAL(pthread_create(&thread, NULL, report_cancelled, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(passed && result == PTHREAD_CANCELED);
    CHECK_EQUAL(kl_record_stop(), 0);
    CHECK_EQUAL(read_file(path_of("0")).blocks[1], 100000);
    clean(1);
}
#endif
#endif
