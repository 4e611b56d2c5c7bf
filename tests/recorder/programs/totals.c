/* totals: totals FILE HOW records itself, on every system. Eight threads and a hundred short ones
 * report the blocks of an allocator that does not exist. Then the program prints what its journal
 * must contain, one `kind count` a line, and ends: HOW is `stop` (kl_record_stop), `exit` (a normal
 * exit without it), or `killed` (by the system, while all threads still exist). */
#include "keel/recorder.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
static void end_process(void) {
    TerminateProcess(GetCurrentProcess(), 9);
}
#else
#include <signal.h>
#include <unistd.h>
static void end_process(void) {
    kill(getpid(), SIGKILL);
}
#endif

enum { WORKERS = 8, BRIEF = 100, ROUNDS = 60000, BRIEF_ROUNDS = 10, FRAMES = 50 };
enum { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, FREE_SIZED, BYTES, KINDS };
static const char* const kinds[KINDS] = {"malloc", "calloc",     "aligned",        "realloc",
                                         "free",   "free_sized", "allocated_bytes"};
static atomic_ullong totals[KINDS];
static atomic_int done;
static atomic_bool over;

static void add(int kind, uint64_t count) {
    totals[kind] += count;
}

static const void* block_of(uint64_t worker, uint64_t number) {
    return (const void*)(uintptr_t)((worker + 1) << 32 | number << 5);
}

static void report(uint64_t worker, uint64_t round, uint64_t* count) {
    const void* block = block_of(worker, round);
    const void* other = block_of(worker, round + ROUNDS);
    size_t size = 1 + (size_t)(round * 7 + worker) % 5000;
    count[BYTES] += size;
    switch (round % 5) {
    case 0:
        kl_record_alloc(block, size);
        count[MALLOC]++;
        break;
    case 1:
        kl_record_calloc(block, size);
        kl_record_free(block);
        count[CALLOC]++, count[FREE]++;
        break;
    case 2:
        kl_record_aligned(block, 64, size);
        count[ALIGNED]++;
        break;
    case 3:
        kl_record_alloc(block, size);
        kl_record_realloc(block, other, size + 8);
        count[MALLOC]++, count[REALLOC]++, count[BYTES] += size + 8;
        break;
    default:
        kl_record_alloc(block, size);
        kl_record_free_sized(block, size);
        count[MALLOC]++, count[FREE_SIZED]++;
    }
}

static void report_rounds(uint64_t worker, uint64_t rounds) {
    uint64_t count[KINDS] = {0};
    char name[16];
    snprintf(name, sizeof name, "worker %d", (int)worker);
    kl_record_thread_name(name);
    for (uint64_t round = 0; round < rounds; round++) report(worker, round, count);
    for (int kind = 0; kind < KINDS; kind++) add(kind, count[kind]);
}

static void* work(void* worker) {
    report_rounds((uintptr_t)worker, ROUNDS);
    done++;
    while (!over) { /* until all threads have reported all */
    }
    return NULL;
}

static void* work_briefly(void* worker) {
    report_rounds((uintptr_t)worker, BRIEF_ROUNDS);
    return NULL;
}

int main(int count, char** words) {
    if (count < 3 || kl_record_start(words[1]) != 0) return 2;
    pthread_t workers[WORKERS], brief;
    for (uintptr_t i = 0; i < WORKERS; i++) pthread_create(&workers[i], NULL, work, (void*)i);
    for (uintptr_t i = 0; i < BRIEF; i++) {
        pthread_create(&brief, NULL, work_briefly, (void*)(WORKERS + i));
        pthread_join(brief, NULL);
    }
    for (int frame = 0; frame < FRAMES; frame++) kl_record_frame();
    kl_record_mark("all of the main thread is reported; the others report on");
    while (done < WORKERS) { /* they all run */
    }
    for (int kind = 0; kind < KINDS; kind++) printf("%s %llu\n", kinds[kind], totals[kind]);
    printf("threads %d\nframes %d\nmarks 1\nforeign 0\n", 1 + WORKERS + BRIEF, FRAMES);
    fflush(stdout);
    if (strcmp(words[2], "killed") == 0) end_process();
    over = true;
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    return strcmp(words[2], "stop") == 0 ? kl_record_stop() : 0;
}
