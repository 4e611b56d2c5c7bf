// A C program on Keel: libraries that it loads, and the loader's list of them.
#include "check.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(LIBRARIES_ALLOCATE)
void* operator_new(size_t bytes) __asm__("_Znwm");

// A function of the loader may be replaced by one that allocates.
__attribute__((visibility("default"))) int
dl_iterate_phdr(int (*visit)(struct dl_phdr_info* object, size_t bytes, void* data), void* data) {
    int (*next)(int (*)(struct dl_phdr_info*, size_t, void*), void*);
    void* volatile block = operator_new(256);
    free(block);
    *(void**)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return next(visit, data);
}

TEST(a_replaced_function_of_the_loader_may_allocate) {
    void* block = NULL;
    CHECK(posix_memalign(&block, 64, 100) == 0);
    free(block);
}
#else
// The library is loaded later, for itself, so Keel cannot throw.
TEST(operator_new_of_a_later_library_returns_null) {
    void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    int (*count)(void);
    CHECK_WITH(library != NULL, "%s", dlerror());
    *(void**)&count = dlsym(library, "count_too_large");
    CHECK_EQUAL(count(), 0);
}

static int wait_in_list(struct dl_phdr_info* object, size_t bytes, void* unused) {
    (void)object, (void)bytes, (void)unused;
    usleep(2000);
    return 0;
}

static void* read_list(void* unused) {
    for (;;) (void)dl_iterate_phdr(wait_in_list, unused);
    return NULL;
}

TEST(the_child_of_a_fork_needs_no_lock_of_the_loader) {
    enum { CHILDREN = 10 };
    pthread_t reader;
    CHECK(pthread_create(&reader, NULL, read_list, NULL) == 0);
    usleep(20000);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            void* block = NULL;
            alarm(10);
            _exit(posix_memalign(&block, 64, 256) != 0 || block == NULL);
        }
        CHECK_CHILD(child);
        usleep(1000);
    }
}
#endif
