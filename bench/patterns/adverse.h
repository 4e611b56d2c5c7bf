// Patterns written to defeat a mechanism of Keel: each names the assumption that it breaks.
// Included by patterns.c.

// Large blocks of which only the first 64th is filled, and then a page here and there. Keel expects
// that a block whose head is filled will be filled (warm/fill.h).
static void head_only(const struct pattern* p) {
    for (size_t i = 0; i < p->count; i++) {
        size_t bytes = between(p->low, p->high);
        char* block = take_untouched(bytes);
        touch(block, 0, bytes / 64);
        for (unsigned touched = 0; touched < 200; touched++) block[draw() % bytes] = 1;
        give(block);
    }
}

// Every other large block is filled; the others get one page used. Keel expects that the next block
// is used as the last two.
static void filled_and_empty(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = i % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        size_t bytes = between(p->low, p->high);
        slot[at] = take_untouched(bytes);
        touch(slot[at], 0, i % 2 == 0 ? bytes : 1);
    }
    give_all(slot, p->slots);
    free(slot);
}

// More sizes in turn than a heap keeps freed runs (four).
static void sizes_in_turn(const struct pattern* p) {
    for (size_t i = 0; i < p->count; i++)
        give(take(p->low + i % p->slots * ((p->high - p->low) / p->slots)));
}

// Fills units of 2 MiB, keeps one block in 32, and refills with blocks of twice the size, which do
// not fit into the holes of one block.
static void unit_holes(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    void** late = calloc(p->slots / 2, sizeof *late);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(p->low);
        for (size_t i = 0; i < p->slots; i++)
            if (i % 32 != 0) give(slot[i]);
        for (size_t i = 0; i < p->slots / 2; i++) late[i] = take(p->high);
        give_all(late, p->slots / 2);
        for (size_t i = 0; i < p->slots; i += 32) give(slot[i]);
    }
    free(late);
    free(slot);
}

// Another thread frees one block in 64, so that each page gets one remote free; the owner frees the
// rest. Keel collects remote frees by page.
static void* sparse_free(void* argument) {
    struct share* s = argument;
    for (size_t i = 0; i < s->pattern->slots; i += 64) {
        give(s->slot[i]);
        s->slot[i] = NULL;
    }
    thread_sum();
    return NULL;
}
static void remote_sparse(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(between(p->low, p->high));
        struct share share = {p, slot, 0, 1, false};
        in_threads(1, sparse_free, &share, sizeof share);
        give_all(slot, p->slots);
    }
    free(slot);
}

// A program of one thread that holds many blocks forks again and again. Keel ends its keeper before
// each fork and starts it later.
static void fork_often(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->slots; i++) slot[i] = take(between(p->low, p->high));
    for (size_t i = 0; i < p->count; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child < 0) exit(1);
        for (unsigned replaced = 0; replaced < 1000; replaced++) {
            size_t at = draw() % p->slots;
            give(slot[at]);
            slot[at] = take(between(p->low, p->high));
        }
        waitpid(child, NULL, 0);
    }
    give_all(slot, p->slots);
    free(slot);
}

// Each block is 1 MiB larger than the one before, which is freed first. Keel expects that a freed
// mapping will fit a later block, and so may leave it and take fresh memory (large/jumbo.c).
static void larger_each_time(const struct pattern* p) {
    for (size_t round = 0; round < p->count; round++) {
        void* held = take(p->low);
        for (size_t bytes = p->low; bytes <= p->high; bytes += MIB) {
            give(held);
            held = take(bytes);
        }
        give(held);
    }
}

// Strings that grow by 64 bytes to a random length and stay. Keel gives a block that grows by a
// small step room for more (alloc/reallocate.c).
static void step_and_stay(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->slots; i++) {
        size_t end = between(p->low, p->high);
        slot[i] = take(p->low);
        for (size_t bytes = p->low; bytes < end; bytes += 64)
            slot[i] = resize(slot[i], bytes, bytes + 64);
    }
    give_all(slot, p->slots);
    free(slot);
}
