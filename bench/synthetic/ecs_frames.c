// The frames of a game with entities and components: arrays that grow, short-lived blocks of one
// frame, events between systems, and names that stay.
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 20000, KINDS = 5, MOST = 20000, SPAWNED = 40, EVENTS = 300 };
static const size_t component_bytes[KINDS] = {12, 16, 48, 64, 128};

struct entity {
    char* name;
    void* script; // a block of its own: the state of its behaviour
    unsigned frames_left;
};
struct array {
    char* data;
    size_t count, room, bytes;
};
struct event {
    struct event* next;
    size_t entity;
    char text[];
};
struct world {
    struct entity* entity;
    size_t count, room;
    struct array component[KINDS];
    struct event* events;
    uint64_t seed, sum;
};

static void grow(struct array* array, size_t count) {
    if (count > array->room) {
        array->room = count < 64 ? 64 : count + count / 2;
        array->data = resize(array->data, array->room * array->bytes);
    }
    for (; array->count < count; array->count++)
        memset(array->data + array->count * array->bytes, 1, array->bytes);
}

static void spawn(struct world* w) {
    if (w->count == MOST) return;
    if (w->count == w->room) {
        w->room = w->room == 0 ? 64 : 2 * w->room;
        w->entity = resize(w->entity, w->room * sizeof *w->entity);
    }
    char name[48];
    int length = snprintf(name, sizeof name, "entity %zu of kind %u", w->count,
                          (unsigned)(draw(&w->seed) % 100));
    struct entity* e = &w->entity[w->count++];
    e->name = take((size_t)length + 1);
    memcpy(e->name, name, (size_t)length + 1);
    e->script = take(between_log(&w->seed, 32, 2048));
    e->frames_left = (unsigned)between_log(&w->seed, 1, 512);
    for (unsigned kind = 0; kind < KINDS; kind++) grow(&w->component[kind], w->count);
}

static void despawn(struct world* w, size_t index) {
    free(w->entity[index].name);
    free(w->entity[index].script);
    w->entity[index] = w->entity[--w->count];
    for (unsigned kind = 0; kind < KINDS; kind++) w->component[kind].count = w->count;
}

static void emit(struct world* w) {
    size_t bytes = between(&w->seed, 16, 200);
    struct event* event = take(sizeof *event + bytes);
    event->next = w->events;
    event->entity = draw(&w->seed);
    w->events = event;
}

static void handle_events(struct world* w) {
    for (struct event *event = w->events, *next; event != NULL; event = next) {
        next = event->next;
        w->sum += event->entity % 7;
        free(event);
    }
    w->events = NULL;
}

// A system works on a list of the entities that it found, which lives for one frame.
static void systems(struct world* w) {
    for (unsigned kind = 0; kind < KINDS; kind++) {
        const struct array* array = &w->component[kind];
        struct array found = {NULL, 0, 0, sizeof(uint32_t)};
        for (size_t i = kind; i < w->count; i += 3) {
            if (found.count == found.room) grow(&found, found.count + 1), found.count--;
            ((uint32_t*)(void*)found.data)[found.count++] = (uint32_t)i;
            w->sum += (unsigned char)array->data[i * array->bytes];
        }
        free(found.data);
    }
}

static uint64_t run(const struct extent* extent) {
    struct world w = {.seed = 19};
    for (unsigned kind = 0; kind < KINDS; kind++) w.component[kind].bytes = component_bytes[kind];
    for (size_t frame = 0, frames = scaled(extent, FRAMES); frame < frames; frame++) {
        for (unsigned i = 0; i < SPAWNED; i++) spawn(&w);
        for (unsigned i = 0; i < EVENTS; i++) emit(&w);
        systems(&w);
        handle_events(&w);
        for (size_t i = w.count; i-- > 0;)
            if (w.entity[i].frames_left-- == 0) despawn(&w, i);
    }
    while (w.count > 0) despawn(&w, w.count - 1);
    for (unsigned kind = 0; kind < KINDS; kind++) free(w.component[kind].data);
    free(w.entity);
    return w.sum;
}

const struct workload ecs_frames = {
    "ecs-frames",
    "frames of a game: entities come and go, component arrays grow, lists live for one frame",
    "realloc of growing arrays beside blocks of one frame and blocks of hundreds of frames",
    "our own: the pattern of an entity component system",
    "the slowest frame: see `keel bench frame-loop`; there is one thread",
    run,
};
