/*
 * The recorder's walk of a stack (recorder/unwind.h) against that of the C library: through frames
 * of every kind that compilers make, callbacks of the C library, threads and signal handlers. This
 * file is compiled without frame pointers; unwind_cxx.cpp contains the cases in C++.
 */
#include "recorder/unwind.h"
#include "check.h"
#include "os/unwind_rules.h"
#include "unwind_cases.h"

#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEPTH = 100 };

static int known, unknown;

/* Loads the C library's unwinder. */
__attribute__((constructor)) static void load_unwinder(void) {
    void* one[1];
    backtrace(one, 1);
}

/* Compares twice: the first walk reads the tables, the second one uses what it remembers. */
__attribute__((noinline)) void compare_walks(void) {
    for (int round = 0; round < 2; round++) {
        void *ours[DEPTH], *theirs[DEPTH];
        int count = unwind_walk(ours, DEPTH);
        int expected = backtrace(theirs, DEPTH);
        if (count < 0) {
            unknown++;
            continue;
        }
        known++;
        CHECK(count == expected);
        /* The first addresses are those of the two calls in this function. */
        for (int i = 1; i < count; i++) CHECK(ours[i] == theirs[i]);
    }
}

static void use(volatile char* memory) {
    memory[0] = 1;
}

__attribute__((noinline)) static int plain(int depth) {
    if (depth == 0) {
        compare_walks();
        return 1;
    }
    return plain(depth - 1) + 1;
}

TEST(frames_without_a_frame_pointer) {
    CHECK(plain(0) == 1 && plain(1) == 2 && plain(40) == 41);
    CHECK(plain(DEPTH + 50) == DEPTH + 51); /* deeper than the walk */
    CHECK(known == 8 && unknown == 0);
}

__attribute__((noinline)) static void of_variable_size(size_t size) {
    char* memory = alloca(size);
    use(memory);
    compare_walks();
    use(memory);
}

TEST(frames_of_variable_size) {
    for (size_t size = 1; size < 5000; size += 77) of_variable_size(size);
    CHECK(known > 0 && unknown == 0);
}

/* Arguments on the stack and a realigned frame of variable size: its address is in memory. */
__attribute__((noinline, force_align_arg_pointer)) static int
realigned(size_t size, int b, int c, int d, int e, int f, int on_stack, int also) {
    _Alignas(128) char aligned[256];
    char* memory = alloca(size);
    use(memory);
    use(aligned);
    CHECK((uintptr_t)aligned % 128 == 0);
    compare_walks();
    use(memory);
    use(aligned);
    return b + c + d + e + f + on_stack + also;
}

TEST(frames_on_a_realigned_stack) {
    for (size_t size = 1; size < 500; size += 7) CHECK(realigned(size, 1, 2, 3, 4, 5, 6, 7) == 28);
    CHECK(known > 0 && unknown == 0);
}

static int compared_by(const void* one, const void* other) {
    compare_walks();
    return *(const int*)one - *(const int*)other;
}

TEST(callbacks_of_the_c_library) {
    int numbers[] = {5, 3, 9, 1, 7};
    qsort(numbers, 5, sizeof numbers[0], compared_by);
    CHECK(numbers[0] == 1 && numbers[4] == 9);
    int seven = 7;
    CHECK(bsearch(&seven, numbers, 5, sizeof numbers[0], compared_by) == &numbers[3]);
    CHECK(known > 8 && unknown == 0);
}

static void* in_thread(void* argument) {
    plain(3);
    return argument;
}

TEST(stacks_of_threads_end) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(known == 2 && unknown == 0);
}

static void handler(int number) {
    (void)number;
    compare_walks();
}

/* The frame of a handler is left to the C library's unwinder. A wrong stack would be an error. */
TEST(signal_handlers_are_left_to_the_other_unwinder) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(known == 0 && unknown == 2);
    plain(2);
    CHECK(known == 2);
}

TEST(frames_of_cxx) {
    run_cxx_cases();
    CHECK(known > 30 && unknown == 0);
}

/* The address of a function in a library that is opened, used and closed. */
static void* used_library(const char* path) {
    void* library = dlopen(path, RTLD_NOW);
    CHECK(library != NULL);
    void* symbol = dlsym(library, "call_back");
    CHECK(symbol != NULL);
    void (*call)(void (*)(void));
    memcpy(&call, &symbol, sizeof call);
    call(compare_walks);
    CHECK(dlclose(library) == 0);
    return symbol;
}

TEST(code_that_was_replaced_is_forgotten) {
    void* first = used_library(SMALL_FRAMES);
    unwind_forget();
    void* second = used_library(LARGE_FRAMES);
    if (first != second) SKIP("the libraries are at different addresses");
    CHECK(known == 4 && unknown == 0);
}

TEST(addresses_without_a_table_are_recognized) {
    static char no_code[64];
    CHECK(unwind_rule_find((uintptr_t)no_code + 8).frame_kind == FRAME_NO_TABLE);
    CHECK(unwind_rule_find(1).frame_kind == FRAME_NO_TABLE);
    CHECK(unwind_rule_find(UINTPTR_MAX).frame_kind == FRAME_NO_TABLE);
}

/* Copies machine code to memory where it can run. */
static void* made_code(const unsigned char* bytes, size_t size) {
    void* page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, bytes, size);
    return page;
}

static void* walked[DEPTH];
static int walked_count;

__attribute__((noinline)) static void note_walk(void) {
    walked_count = unwind_walk(walked, DEPTH);
}

/* Runs code that calls its argument. Returns the number of addresses from its frame outwards. */
__attribute__((noinline)) static int outward_of(const unsigned char* bytes, size_t size) {
    char* code = made_code(bytes, size);
    void (*run)(void (*)(void));
    memcpy(&run, &code, sizeof run);
    for (int round = 0; round < 2; round++) run(note_walk);
    for (int i = 0; i < walked_count; i++) {
        if ((char*)walked[i] > code && (char*)walked[i] < code + size) return walked_count - i;
    }
    return 0;
}

static void* in_thread_with_code(void* argument) {
    (void)argument;
    const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    CHECK(outward_of(code, sizeof code) >= 3);
    return NULL;
}

TEST(code_without_tables_has_a_frame_pointer) {
    /* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
    const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    CHECK(outward_of(code, sizeof code) >= 3);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread_with_code, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

TEST(other_values_of_the_frame_pointer_end_the_stack) {
    /* push rbp; mov rbp, 16; call rdi; pop rbp; ret, and the same with rbp = rsp + 200000000 */
    const unsigned char low[] = {0x55, 0x48, 0xc7, 0xc5, 16, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
    CHECK(outward_of(low, sizeof low) == 1);
    const unsigned char high[] = {0x55, 0x48, 0x8d, 0xac, 0x24, 0,   0xc2,
                                  0xeb, 0x0b, 0xff, 0xd7, 0x5d, 0xc3};
    CHECK(outward_of(high, sizeof high) == 1);
    /* sub rsp, 8; call rdi; add rsp, 8; ret: needs no frame pointer */
    const unsigned char direct[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
    CHECK(outward_of(direct, sizeof direct) >= 3);
}
