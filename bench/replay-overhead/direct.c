/* A program that only allocates and frees, and that can print its operations beforehand: the direct
 * loop with which a replay of the same operations is compared.
 *
 *     direct CASE OPERATIONS journal            prints them in the form of the Doom 3 blog
 *     direct CASE OPERATIONS LIBRARY PREFIX     executes them with LIBRARY's PREFIXmalloc and
 *                                               PREFIXfree, or with the C library's functions if
 *                                               both are empty; prints ns an operation
 *
 * The operations are in an array that is made before the clock starts: a place, and whether it gets
 * or frees a block. So between two calls the loop does only what every program does: it reads the
 * next operation, and loads or stores an address.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct scene {
    const char* name;
    uint32_t threads, places;
    int in_turn; /* places one after the other: what comes next can be foreseen */
};

static const struct scene scenes[] = {
    {"in-turn", 1, 1000, 1},
    {"random", 1, 10000, 0},
    {"random-large", 1, 1000000, 0},
    {"random-2-threads", 2, 10000, 0},
};

struct actor {
    const struct scene* scene;
    size_t operations;
    uint32_t* next; /* twice the place, and 1 if its block is to be freed */
    void** blocks;  /* of each place */
    void* (*malloc)(size_t);
    void (*free)(void*);
    uint64_t begin_ns, end_ns;
};

static pthread_barrier_t start;

static uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static size_t size_at(uint32_t place) {
    return 16 + (place * 7919u & 255);
}

static void plan(struct actor* actor, uint64_t seed) {
    uint32_t places = actor->scene->places;
    actor->next = malloc(actor->operations * sizeof *actor->next);
    actor->blocks = calloc(places, sizeof *actor->blocks);
    if (!actor->next || !actor->blocks) abort();
    for (size_t step = 0; step < actor->operations; step++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        /* In turn, every second operation frees the block that was made `places` operations ago. */
        uint64_t turn = step % 2 ? step / 2 + places / 2 : step / 2;
        uint32_t place = (uint32_t)((actor->scene->in_turn ? turn : seed >> 11) % places);
        actor->next[step] = place * 2 + (actor->blocks[place] != NULL);
        actor->blocks[place] = actor->blocks[place] ? NULL : actor;
    }
    memset(actor->blocks, 0, places * sizeof *actor->blocks);
}

static void* act(void* argument) {
    struct actor* actor = argument;
    pthread_barrier_wait(&start);
    actor->begin_ns = monotonic_ns();
    for (size_t step = 0; step < actor->operations; step++) {
        uint32_t next = actor->next[step], place = next / 2;
        if (next & 1) {
            actor->free(actor->blocks[place]);
        } else {
            actor->blocks[place] = actor->malloc(size_at(place));
        }
    }
    actor->end_ns = monotonic_ns();
    return NULL;
}

/* A row of each thread in turn. */
static void print_journal(struct actor* actors, uint32_t threads) {
    for (size_t step = 0; step < actors[0].operations; step++) {
        for (uint32_t thread = 0; thread < threads; thread++) {
            uint32_t place = actors[thread].next[step] / 2;
            uint64_t address = ((uint64_t)(thread + 1) << 32) + place * 16u;
            if (actors[thread].next[step] & 1) {
                printf("f %lx %u %zu\n", address, thread, step * 10);
            } else {
                printf("a %zu %lx %u %zu\n", size_at(place), address, thread, step * 10);
            }
        }
    }
}

static void find(struct actor* actor, const char* library, const char* prefix) {
    actor->malloc = malloc;
    actor->free = free;
    if (!*library) return;
    char name[64];
    void* handle = dlopen(library, RTLD_NOW);
    snprintf(name, sizeof name, "%smalloc", prefix);
    if (handle) *(void**)&actor->malloc = dlsym(handle, name);
    snprintf(name, sizeof name, "%sfree", prefix);
    if (handle) *(void**)&actor->free = dlsym(handle, name);
    if (!handle || !actor->malloc || !actor->free) {
        fprintf(stderr, "direct: %s has no %s\n", library, name);
        exit(1);
    }
}

int main(int count, char** arguments) {
    const struct scene* scene = NULL;
    for (size_t at = 0; count >= 4 && at < sizeof scenes / sizeof *scenes; at++) {
        if (!strcmp(arguments[1], scenes[at].name)) scene = &scenes[at];
    }
    if (!scene) {
        fprintf(stderr,
                "usage: direct CASE OPERATIONS journal | direct CASE OPERATIONS LIBRARY PREFIX\n");
        return 2;
    }
    struct actor actors[2] = {0};
    pthread_t threads[2];
    for (uint32_t thread = 0; thread < scene->threads; thread++) {
        actors[thread].scene = scene;
        actors[thread].operations = (size_t)atol(arguments[2]) / scene->threads;
        plan(&actors[thread], 88172645463325252u + thread);
    }
    if (count == 4) {
        print_journal(actors, scene->threads);
        return 0;
    }
    pthread_barrier_init(&start, NULL, scene->threads);
    for (uint32_t thread = 0; thread < scene->threads; thread++) {
        find(&actors[thread], arguments[3], arguments[4]);
        pthread_create(&threads[thread], NULL, act, &actors[thread]);
    }
    uint64_t begin = UINT64_MAX, end = 0;
    size_t operations = 0;
    for (uint32_t thread = 0; thread < scene->threads; thread++) {
        pthread_join(threads[thread], NULL);
        if (actors[thread].begin_ns < begin) begin = actors[thread].begin_ns;
        if (actors[thread].end_ns > end) end = actors[thread].end_ns;
        operations += actors[thread].operations;
    }
    printf("%.3f\n", (double)(end - begin) / (double)operations);
    return 0;
}
