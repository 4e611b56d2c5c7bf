// The functions that isoalloc's attacks call, by the program's own malloc.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define SMALL_SIZE_MAX 65536
#define iso_alloc malloc
#define iso_free free
#define iso_free_permanently free

static inline void iso_free_size(void* block, size_t size) {
    void (*sized)(void*, size_t);
    *(void**)&sized = dlsym(RTLD_DEFAULT, "free_sized");
    if (sized != NULL)
        sized(block, size);
    else
        free(block);
}

static inline void iso_verify_zones(void) {
    size_t (*check_all)(void);
    *(void**)&check_all = dlsym(RTLD_DEFAULT, "kl_check_all");
    if (check_all != NULL) (void)check_all();
}
