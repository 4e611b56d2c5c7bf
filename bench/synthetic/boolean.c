// Minimises random functions of 9 variables: all prime implicants (Quine and McCluskey), then the
// better one of two greedy covers. Each implicant is a block in a linked list and in a hash table.
#include "synthetic.h"

#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 9, POINTS = 1 << VARIABLES, TABLE = 256, FUNCTIONS = 800 };

struct implicant {
    struct implicant* next;     // of its level
    struct implicant* collided; // in the table
    unsigned value, free_bits;  // the fixed variables; the variables that do not matter
    bool merged;
};

struct level {
    struct implicant* first;
    struct implicant* table[TABLE];
};

static void add(struct level* level, unsigned value, unsigned free_bits) {
    struct implicant** at = &level->table[(value * 2654435761u ^ free_bits * 40503u) % TABLE];
    for (struct implicant* i = *at; i != NULL; i = i->collided)
        if (i->value == value && i->free_bits == free_bits) return;
    struct implicant* added = take(sizeof *added);
    *added = (struct implicant){level->first, *at, value, free_bits, false};
    *at = level->first = added;
}

static struct implicant* find(struct level* level, unsigned value, unsigned free_bits) {
    struct implicant* i = level->table[(value * 2654435761u ^ free_bits * 40503u) % TABLE];
    while (i != NULL && (i->value != value || i->free_bits != free_bits)) i = i->collided;
    return i;
}

static struct level* merge(struct level* level) {
    struct level* above = take_zeroed(1, sizeof *above);
    for (struct implicant* i = level->first; i != NULL; i = i->next)
        for (unsigned bit = 1; bit < POINTS; bit <<= 1) {
            if ((i->free_bits & bit) != 0 || (i->value & bit) != 0) continue;
            struct implicant* other = find(level, i->value | bit, i->free_bits);
            if (other == NULL) continue;
            i->merged = other->merged = true;
            add(above, i->value, i->free_bits | bit);
        }
    return above;
}

// Moves the implicants that were not merged to `primes` and frees the level.
static void retire(struct level* level, struct implicant** primes) {
    for (struct implicant *i = level->first, *next; i != NULL; i = next) {
        next = i->next;
        if (i->merged) {
            free(i);
        } else {
            i->next = *primes;
            *primes = i;
        }
    }
    free(level);
}

static unsigned gain(const struct implicant* i, const bool* open) {
    unsigned count = 0, part = i->free_bits;
    for (;; part = (part - 1) & i->free_bits) {
        count += open[i->value | part];
        if (part == 0) return count;
    }
}

// Chooses the implicant that covers most of the open points, until none is open; among equal ones
// the first or the last.
static uint64_t cover(struct implicant* primes, const bool* points, bool last) {
    bool open[POINTS];
    memcpy(open, points, sizeof open);
    for (uint64_t chosen = 0;; chosen++) {
        struct implicant* best = NULL;
        unsigned most = 0;
        for (struct implicant* i = primes; i != NULL; i = i->next) {
            unsigned covered = gain(i, open);
            if (covered > most || (last && covered == most && most > 0)) most = covered, best = i;
        }
        if (best == NULL) return chosen;
        for (unsigned part = best->free_bits;; part = (part - 1) & best->free_bits) {
            open[best->value | part] = false;
            if (part == 0) break;
        }
    }
}

static uint64_t minimise(uint64_t* seed) {
    bool open[POINTS];
    struct level* level = take_zeroed(1, sizeof *level);
    struct implicant* primes = NULL;
    for (unsigned point = 0; point < POINTS; point++) {
        open[point] = draw(seed) % 10 < 8;
        if (open[point]) add(level, point, 0);
    }
    while (level->first != NULL) {
        struct level* above = merge(level);
        retire(level, &primes);
        level = above;
    }
    free(level);
    uint64_t first = cover(primes, open, false), last = cover(primes, open, true);
    for (struct implicant *i = primes, *next; i != NULL; i = next) {
        next = i->next;
        free(i);
    }
    return first < last ? first : last;
}

static uint64_t run(const struct extent* extent) {
    uint64_t seed = 29, sum = 0;
    for (size_t i = 0, count = scaled(extent, FUNCTIONS); i < count; i++) sum += minimise(&seed);
    return sum;
}

const struct workload boolean = {
    "boolean",
    "minimises boolean functions of 9 variables; implicants are blocks in lists and hash tables",
    "small blocks of one size, tables of 2 KiB, and locality in linked lists",
    "espresso, a benchmark of B. Zorn: logic minimisation",
    "malloc alone: the program spends most of its time in its own lists",
    run,
};
