// Gravity of bodies in a plane: each step builds a quadtree whose cells are blocks, computes all
// forces, and frees the tree.
#include "synthetic.h"

#include <stdlib.h>

enum { BODIES = 4000, STEPS = 40 };

struct body {
    double x, y, vx, vy, mass;
};
struct cell {
    struct cell* quarter[4];
    struct body* body; // of a leaf with one body
    double x, y, half; // centre and half of the edge
    double mass, mx, my;
};

static struct cell* make(double x, double y, double half) {
    struct cell* cell = take_zeroed(1, sizeof *cell);
    cell->x = x;
    cell->y = y;
    cell->half = half;
    return cell;
}

static struct cell** quarter_of(struct cell* cell, const struct body* body) {
    unsigned index = (body->x >= cell->x) + 2u * (body->y >= cell->y);
    if (cell->quarter[index] == NULL) {
        double half = cell->half / 2;
        cell->quarter[index] =
            make(cell->x + (index & 1 ? half : -half), cell->y + (index & 2 ? half : -half), half);
    }
    return &cell->quarter[index];
}

static void insert(struct cell* cell, struct body* body) {
    for (;;) {
        bool empty = cell->mass == 0;
        cell->mass += body->mass;
        cell->mx += body->mass * body->x;
        cell->my += body->mass * body->y;
        if (empty || cell->half < 1e-9) {
            cell->body = body;
            return;
        }
        if (cell->body != NULL) {
            struct body* moved = cell->body;
            cell->body = NULL;
            insert(*quarter_of(cell, moved), moved);
        }
        cell = *quarter_of(cell, body);
    }
}

static void attract(const struct cell* cell, struct body* body) {
    if (cell == NULL || cell->body == body) return;
    double dx = cell->mx / cell->mass - body->x, dy = cell->my / cell->mass - body->y;
    double square = dx * dx + dy * dy + 1e-4;
    if (cell->body == NULL && 4 * cell->half * cell->half > square * 0.06) {
        for (unsigned i = 0; i < 4; i++) attract(cell->quarter[i], body);
        return;
    }
    double pull = cell->mass / (square * square) * 1e-6;
    body->vx += dx * pull;
    body->vy += dy * pull;
}

static void release(struct cell* cell) {
    if (cell == NULL) return;
    for (unsigned i = 0; i < 4; i++) release(cell->quarter[i]);
    free(cell);
}

static double wrapped(double at) {
    return at < -1 ? at + 2 : at > 1 ? at - 2 : at;
}

static uint64_t run(const struct extent* extent) {
    struct body* bodies = calloc(BODIES, sizeof *bodies);
    uint64_t seed = 37;
    for (unsigned i = 0; i < BODIES; i++) {
        bodies[i].x = (double)(draw(&seed) % 2000000) * 1e-6 - 1;
        bodies[i].y = (double)(draw(&seed) % 2000000) * 1e-6 - 1;
        bodies[i].mass = 1;
    }
    for (size_t step = 0, steps = scaled(extent, STEPS); step < steps; step++) {
        struct cell* root = make(0, 0, 1);
        for (unsigned i = 0; i < BODIES; i++) insert(root, &bodies[i]);
        for (unsigned i = 0; i < BODIES; i++) attract(root, &bodies[i]);
        release(root);
        for (unsigned i = 0; i < BODIES; i++) {
            bodies[i].x = wrapped(bodies[i].x + bodies[i].vx);
            bodies[i].y = wrapped(bodies[i].y + bodies[i].vy);
        }
    }
    double sum = 0;
    for (unsigned i = 0; i < BODIES; i++) sum += bodies[i].x + bodies[i].y;
    free(bodies);
    return (uint64_t)(int64_t)(sum * 1e6);
}

const struct workload barnes_hut = {
    "barnes-hut",
    "forces between 4,000 bodies with a quadtree of cells that is built and freed in each step",
    "locality: cells that are used together should lie together",
    "J. Barnes and P. Hut, 1986; Hoard's and mimalloc's benchmarks use it",
    "the speed of malloc: nearly all time is arithmetic on the tree",
    run,
};
