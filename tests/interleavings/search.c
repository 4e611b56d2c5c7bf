// Depth-first search over the decisions of a run: which thread takes the next step, and which of
// several values a step sees.
#include "engine.h"
#include <stdlib.h>
#include <string.h>

struct node {
    uint8_t thread;       // the thread that takes this step
    uint8_t choice;       // the chosen possibility
    uint8_t choices;      // 1..
    uint8_t backtrack;    // threads to be tried here
    uint8_t sleep;        // threads not to be tried: everything that follows is known
    uint16_t preemptions; // up to and including this step
    uint8_t weak;         // weak behaviours before this step
};

static struct node nodes[STEPS_MAX];
static struct event events[STEPS_MAX];
static unsigned depth;  // steps of this run so far
static unsigned replay; // the number of decisions that are repeated from the previous run
static bool bounded;
static unsigned preemptions_max;
static unsigned weak_max;
static uint16_t newest_of[THREADS_MAX]; // each thread's newest step + 1
static uint16_t numbers[THREADS_MAX];

// The steps of each location in this run, newest first.
static uint16_t newest_at[LOCATIONS_MAX]; // step + 1, 0: none
static uint16_t previous_at[STEPS_MAX];

unsigned search_depth(void) {
    return depth;
}
const struct event* search_events(void) {
    return events;
}

void search_begin(const struct explore_scenario* scenario) {
    bounded = scenario->preemptions != EXPLORE_ALL;
    preemptions_max = scenario->preemptions;
    weak_max = scenario->weak;
    replay = 0;
}

void search_run_begin(void) {
    depth = 0;
    memset(newest_of, 0, sizeof newest_of);
    memset(numbers, 0, sizeof numbers);
    memset(newest_at, 0, sizeof newest_at);
}

static bool conflict(const struct step* a, const struct step* b) {
    if (a->access == ACCESS_NONE || b->access == ACCESS_NONE) return false;
    if (a->location != b->location) return false;
    if (a->access == ACCESS_ADD && b->access == ACCESS_ADD) return false;
    return a->access != ACCESS_READ || b->access != ACCESS_READ;
}

static unsigned lowest(unsigned threads) {
    return (unsigned)__builtin_ctz(threads);
}

// The sleep set after the last step: threads of the sleep set before it whose next step does not
// depend on it.
static unsigned inherited_sleep(const struct step* pending) {
    const struct node* parent = &nodes[depth - 1];
    unsigned sleep = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        if ((parent->sleep >> i & 1) == 0 || i == parent->thread) continue;
        if (!conflict(&pending[i], &events[depth - 1].step)) sleep |= 1u << i;
    }
    return sleep;
}

static int pick_new(unsigned enabled, const struct step* pending) {
    struct node* node = &nodes[depth];
    unsigned last = depth == 0 ? THREADS_MAX : nodes[depth - 1].thread;
    bool may_go_on = last < THREADS_MAX && (enabled >> last & 1) != 0;
    *node = (struct node){.choices = 1};
    if (depth > 0) {
        node->preemptions = nodes[depth - 1].preemptions;
        node->weak = (uint8_t)(nodes[depth - 1].weak + events[depth - 1].weak);
    }
    if (bounded) {
        bool may_preempt =
            node->preemptions < preemptions_max && pending[last % THREADS_MAX].access != ACCESS_ADD;
        node->backtrack = (uint8_t)(may_go_on && !may_preempt ? 1u << last : enabled);
        node->thread = (uint8_t)(may_go_on ? last : lowest(enabled));
        return node->thread;
    }
    node->sleep = (uint8_t)(depth == 0 ? 0 : inherited_sleep(pending));
    unsigned awake = enabled & ~(unsigned)node->sleep;
    if (awake == 0) return PICK_REDUNDANT;
    node->thread = (uint8_t)(may_go_on && (awake >> last & 1) != 0 ? last : lowest(awake));
    node->backtrack = (uint8_t)(1u << node->thread);
    return node->thread;
}

int search_pick(unsigned enabled, const struct step* pending) {
    if (enabled == 0) return PICK_NOBODY;
    if (depth == STEPS_MAX) explore_fail("no end after %u steps", STEPS_MAX);
    if (depth >= replay) {
        int thread = pick_new(enabled, pending);
        if (thread < 0) return thread;
    }
    struct node* node = &nodes[depth];
    if ((enabled >> node->thread & 1) == 0) explore_fail("the explorer does not replay exactly");
    if (bounded && depth > 0) {
        unsigned last = nodes[depth - 1].thread;
        bool preempts = node->thread != last && (enabled >> last & 1) != 0;
        node->preemptions = (uint16_t)(nodes[depth - 1].preemptions + preempts);
    }
    return node->thread;
}

unsigned search_choose(unsigned count) {
    struct node* node = &nodes[depth];
    node->choices = (uint8_t)count;
    return node->choice;
}

unsigned search_choose_weak(unsigned count) {
    return nodes[depth].weak >= weak_max ? 0 : search_choose(count);
}

static void clocks_join(struct clocks* to, const struct clocks* from) {
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        if (to->of[i] < from->of[i]) to->of[i] = from->of[i];
    }
}

// The threads of which one must be tried at step `at` so that the step `now` can come before it:
// the first of those steps after `at` that do not depend on it, `now` being the last.
static unsigned initials(unsigned at, unsigned now) {
    unsigned racer = events[at].thread;
    unsigned result = 0;
    unsigned known = 0;
    uint16_t first[THREADS_MAX] = {0};
    for (unsigned i = at + 1; i <= now; i++) {
        const struct event* event = &events[i];
        if (i < now && event->before.of[racer] >= events[at].number) continue;
        if ((known >> event->thread & 1) != 0) continue;
        bool is_initial = true;
        for (unsigned t = 0; t < THREADS_MAX; t++) {
            if ((known >> t & 1) != 0 && event->before.of[t] >= first[t]) is_initial = false;
        }
        known |= 1u << event->thread;
        first[event->thread] = event->number;
        if (is_initial) result |= 1u << event->thread;
    }
    return result;
}

static void add_backtrack(unsigned at, unsigned now) {
    unsigned candidates = initials(at, now);
    if ((nodes[at].backtrack & candidates) != 0 || candidates == 0) return;
    unsigned own = 1u << events[now].thread;
    nodes[at].backtrack |= (uint8_t)((candidates & own) != 0 ? own : 1u << lowest(candidates));
}

void search_event(struct event* event, const struct clocks* woken_by) {
    unsigned thread = event->thread;
    uint16_t races[64];
    unsigned race_count = 0;
    event->number = ++numbers[thread];
    event->before = (struct clocks){{0}};
    if (newest_of[thread] > 0) event->before = events[newest_of[thread] - 1].before;
    if (woken_by != NULL) clocks_join(&event->before, woken_by);
    event->before.of[thread] = event->number;
    newest_of[thread] = (uint16_t)(depth + 1);

    if (event->step.access != ACCESS_NONE) {
        uint16_t location = event->step.location;
        for (unsigned i = newest_at[location]; i > 0; i = previous_at[i - 1]) {
            const struct event* other = &events[i - 1];
            if (!conflict(&event->step, &other->step)) continue;
            if (event->before.of[other->thread] >= other->number) continue;
            if (race_count < 64) races[race_count++] = (uint16_t)(i - 1);
            clocks_join(&event->before, &other->before);
        }
        previous_at[depth] = newest_at[location];
        newest_at[location] = (uint16_t)(depth + 1);
    }
    events[depth] = *event;
    if (!bounded && depth + 1 >= replay) {
        for (unsigned i = 0; i < race_count; i++) add_backtrack(races[i], depth);
    }
    depth++;
}

bool search_next(void) {
    for (unsigned i = depth; i-- > 0;) {
        struct node* node = &nodes[i];
        replay = i + 1;
        if (node->choice + 1 < node->choices) {
            node->choice++;
            return true;
        }
        node->sleep |= (uint8_t)(1u << node->thread);
        unsigned left = node->backtrack & ~(unsigned)node->sleep;
        if (left != 0) {
            node->thread = (uint8_t)lowest(left);
            node->choice = 0;
            node->choices = 1;
            return true;
        }
    }
    return false;
}
