// Continued fractions of square roots, with numbers of any length: each result is a new block, as
// in a library without reference counts. The expansion is the first part of the factoring method
// CFRAC: P, Q and the numerators modulo N.
#include "synthetic.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 700000, RESTART = 2000, LIMBS = 3 };

// Little-endian; the highest limb is not 0. Zero has no limbs.
struct number {
    size_t count;
    uint32_t limb[];
};

static struct number* make(size_t count) {
    struct number* n = take(sizeof *n + count * sizeof(uint32_t));
    n->count = count;
    return n;
}
static struct number* trimmed(struct number* n) {
    while (n->count > 0 && n->limb[n->count - 1] == 0) n->count--;
    return n;
}
static struct number* small(uint32_t value) {
    struct number* n = make(1);
    n->limb[0] = value;
    return trimmed(n);
}

static int compare(const struct number* a, const struct number* b) {
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (size_t i = a->count; i-- > 0;)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static struct number* sum(const struct number* a, const struct number* b) {
    if (a->count < b->count) return sum(b, a);
    struct number* n = make(a->count + 1);
    uint64_t carry = 0;
    for (size_t i = 0; i < a->count; i++) {
        carry += (uint64_t)a->limb[i] + (i < b->count ? b->limb[i] : 0);
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->limb[a->count] = (uint32_t)carry;
    return trimmed(n);
}

// a - b, for a >= b.
static struct number* difference(const struct number* a, const struct number* b) {
    struct number* n = make(a->count);
    int64_t borrow = 0;
    for (size_t i = 0; i < a->count; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0);
        n->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return trimmed(n);
}

static struct number* product(const struct number* a, const struct number* b) {
    struct number* n = make(a->count + b->count);
    memset(n->limb, 0, n->count * sizeof(uint32_t));
    for (size_t i = 0; i < a->count; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < b->count; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + n->limb[i + j];
            n->limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        n->limb[i + b->count] = (uint32_t)carry;
    }
    return trimmed(n);
}

// Doubles in place and adds a bit; there is room for one more limb.
static void push_bit(struct number* n, uint32_t bit) {
    for (size_t i = 0; i < n->count; i++) {
        uint32_t next = n->limb[i] >> 31;
        n->limb[i] = n->limb[i] << 1 | bit;
        bit = next;
    }
    if (bit != 0) n->limb[n->count++] = bit;
}
static void subtract_from(struct number* a, const struct number* b) {
    int64_t borrow = 0;
    for (size_t i = 0; i < a->count; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    trimmed(a);
}

// The quotient a / b, and the remainder if it is wanted. Bits above those of b are copied at once.
static struct number* divided(const struct number* a, const struct number* b,
                              struct number** remainder) {
    struct number *quotient = make(a->count), *rest = make(b->count + 1);
    memset(quotient->limb, 0, a->count * sizeof(uint32_t));
    size_t copied = a->count >= b->count ? b->count - 1 : a->count;
    memcpy(rest->limb, a->limb + a->count - copied, copied * sizeof(uint32_t));
    rest->count = copied;
    for (size_t bit = (a->count - copied) * 32; bit-- > 0;) {
        push_bit(rest, a->limb[bit / 32] >> (bit % 32) & 1);
        if (compare(rest, b) < 0) continue;
        subtract_from(rest, b);
        quotient->limb[bit / 32] |= (uint32_t)1 << (bit % 32);
    }
    if (remainder != NULL)
        *remainder = trimmed(rest);
    else
        free(rest);
    return trimmed(quotient);
}

// Newton's method from above.
static struct number* square_root(const struct number* n) {
    struct number* root = make(n->count / 2 + 2);
    memset(root->limb, 0, root->count * sizeof(uint32_t));
    root->limb[root->count - 1] = 1;
    for (struct number* two = small(2);;) {
        struct number *part = divided(n, root, NULL), *both = sum(root, part);
        struct number* next = divided(both, two, NULL);
        free(part);
        free(both);
        if (compare(next, root) >= 0) {
            free(next);
            free(two);
            return root;
        }
        free(root);
        root = next;
    }
}

static void replace(struct number** place, struct number* by) {
    free(*place);
    *place = by;
}

// One step: a = (root + P) / Q; P' = a Q - P; Q' = (N - P'^2) / Q; A' = (a A + B) mod N.
struct expansion {
    struct number *n, *root, *p, *q, *a, *b;
};
static uint64_t step(struct expansion* e) {
    struct number* above = sum(e->root, e->p);
    struct number* digit = divided(above, e->q, NULL);
    struct number* scaled_q = product(digit, e->q);
    struct number* p = difference(scaled_q, e->p);
    struct number* square = product(p, p);
    struct number* left = difference(e->n, square);
    struct number* q = divided(left, e->q, NULL);
    struct number* scaled_a = product(digit, e->a);
    struct number* numerator = sum(scaled_a, e->b);
    struct number* rest;
    free(divided(numerator, e->n, &rest));
    uint64_t seen = digit->count > 0 ? digit->limb[0] : 0;
    replace(&e->p, p);
    replace(&e->q, q);
    replace(&e->b, e->a);
    e->a = rest;
    struct number* temporary[] = {above, digit, scaled_q, square, left, scaled_a, numerator};
    for (unsigned i = 0; i < sizeof temporary / sizeof *temporary; i++) free(temporary[i]);
    return seen;
}

static uint64_t expand(uint64_t* seed, size_t steps) {
    struct expansion e = {.n = make(LIMBS)};
    for (unsigned i = 0; i < LIMBS; i++)
        e.n->limb[i] = (uint32_t)draw(seed) | (i == LIMBS - 1 ? 1u << 31 : 1);
    e.root = square_root(e.n);
    e.p = small(0);
    e.q = small(1);
    e.a = small(1);
    e.b = small(0);
    uint64_t seen = 0;
    for (size_t i = 0; i < steps && e.q->count > 0; i++) seen = seen * 31 + step(&e);
    struct number* all[] = {e.n, e.root, e.p, e.q, e.a, e.b};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return seen;
}

static uint64_t run(const struct extent* extent) {
    uint64_t seed = 97, seen = 0;
    size_t steps = scaled(extent, STEPS);
    for (size_t done = 0; done < steps; done += RESTART) seen ^= expand(&seed, RESTART);
    return seen;
}

const struct workload bignum = {
    "bignum",
    "continued fractions of 96-bit numbers; each result is a new block of 12 to 36 B",
    "very many small blocks of a short life, allocated and freed on one thread",
    "cfrac (D. Barrett), a benchmark of B. Zorn: factoring with continued fractions",
    "memory: a few KiB are live; the division is not a fast one",
    run,
};
