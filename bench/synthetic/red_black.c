// A persistent red-black tree, as interpreters of functional languages use it: an insertion copies
// the path to the root, and reference counts free what no version uses. Chris Okasaki's balancing.
#include "synthetic.h"

#include <stdlib.h>

enum { KEYS = 1 << 20, STEPS = 250000, VERSIONS = 64 };

enum colour { RED, BLACK };
struct node {
    struct node *left, *right;
    uint32_t count; // references
    uint32_t key;
    enum colour colour;
};

static struct node* shared(struct node* node) {
    if (node != NULL) node->count++;
    return node;
}
static void drop(struct node* node) {
    while (node != NULL && --node->count == 0) {
        struct node* right = node->right;
        drop(node->left);
        free(node);
        node = right;
    }
}
// Takes over the references to both children.
static struct node* make(enum colour colour, struct node* left, uint32_t key, struct node* right) {
    struct node* node = take(sizeof *node);
    *node = (struct node){left, right, 1, key, colour};
    return node;
}
static bool is_red(const struct node* node) {
    return node != NULL && node->colour == RED;
}

// The node (BLACK, left, key, right), where left or right may be red with a red child.
static struct node* balanced(struct node* left, uint32_t key, struct node* right) {
    struct node *a, *b, *c, *d, *freed;
    uint32_t low, middle, high;
    if (is_red(left) && is_red(left->left)) {
        freed = left;
        a = left->left->left, low = left->left->key, b = left->left->right;
        middle = left->key, c = left->right, high = key, d = right;
    } else if (is_red(left) && is_red(left->right)) {
        freed = left;
        a = left->left, low = left->key, b = left->right->left;
        middle = left->right->key, c = left->right->right, high = key, d = right;
    } else if (is_red(right) && is_red(right->left)) {
        freed = right;
        a = left, low = key, b = right->left->left;
        middle = right->left->key, c = right->left->right, high = right->key, d = right->right;
    } else if (is_red(right) && is_red(right->right)) {
        freed = right;
        a = left, low = key, b = right->left;
        middle = right->key, c = right->right->left, high = right->right->key;
        d = right->right->right;
    } else {
        return make(BLACK, left, key, right);
    }
    // The subtrees of the two nodes that are replaced get a second parent.
    shared(b);
    shared(c);
    shared(freed == left ? a : d);
    struct node* result = make(RED, make(BLACK, a, low, b), middle, make(BLACK, c, high, d));
    drop(freed);
    return result;
}

static struct node* inserted(const struct node* node, uint32_t key) {
    if (node == NULL) return make(RED, NULL, key, NULL);
    struct node *left = node->left, *right = node->right;
    if (key == node->key) return make(node->colour, shared(left), key, shared(right));
    if (key < node->key) {
        struct node* fresh = inserted(left, key);
        return node->colour == RED ? make(RED, fresh, node->key, shared(right))
                                   : balanced(fresh, node->key, shared(right));
    }
    struct node* fresh = inserted(right, key);
    return node->colour == RED ? make(RED, shared(left), node->key, fresh)
                               : balanced(shared(left), node->key, fresh);
}

static uint64_t sum_of(const struct node* node) {
    return node == NULL ? 0 : node->key + sum_of(node->left) + sum_of(node->right);
}

static uint64_t run(const struct extent* extent) {
    struct node* version[VERSIONS] = {NULL};
    struct node* tree = NULL;
    uint64_t seed = 73;
    for (size_t i = 0, steps = scaled(extent, STEPS); i < steps; i++) {
        struct node* next = inserted(tree, (uint32_t)(draw(&seed) % KEYS));
        next->colour = BLACK;
        if (i % 256 == 0) { // an old version is kept for a while
            struct node** place = &version[i / 256 % VERSIONS];
            drop(*place);
            *place = shared(tree);
        }
        drop(tree);
        tree = next;
    }
    uint64_t sum = sum_of(tree);
    drop(tree);
    for (unsigned i = 0; i < VERSIONS; i++) drop(version[i]);
    return sum;
}

const struct workload red_black = {
    "red-black",
    "250,000 insertions into a persistent tree: about 20 nodes of 32 B are copied in each",
    "malloc and free of one small size with a large live set, freed out of order",
    "the red-black-tree tests of the languages Koka and OCaml in mimalloc's benchmarks",
    "sizes other than 32 B; several threads",
    run,
};
