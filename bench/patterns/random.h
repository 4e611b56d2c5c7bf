// Random programs: `patterns random-SEED`. The seed chooses how many threads there are, the sizes,
// how many blocks are held, in which order they are freed, and which part of a block is touched.
// Nobody has seen such a program before, so no allocator is tuned to it. Included by patterns.c.

enum order {
    REPLACE_ANY,
    REPLACE_IN_TURN,
    LAST_FIRST,
    PARTLY_FREED,
    GROWING,
    ONE_AT_A_TIME,
    ORDERS
};
enum touched { FIRST_BYTE, WHOLE, FOUR_PLACES, EVERY_OTHER_BLOCK, FIRST_HALF, TOUCHED };
enum spread { LOGARITHMIC, UNIFORM, FOUR_SIZES, SPREADS };

static struct {
    unsigned threads;
    enum order order;
    enum touched touched;
    enum spread spread;
    bool shared;      // the threads exchange their blocks
    double low, high; // logarithms of sizes
    double small;     // part of the blocks that have up to `small_bytes`
    size_t small_bytes;
    double reallocs, callocs, aligned, freed; // parts of the calls, of the blocks
    size_t slots;
    size_t count; // blocks allocated by each thread
    uint64_t seed;
} plan;

static double part(void) {
    return (double)(draw() >> 11) / (double)(1ull << 53);
}
static bool chance(double p) {
    return p > 0 && part() < p;
}
static double power(double exponent) {
    double value = 1;
    for (; exponent >= 1; exponent--) value *= 2;
    return value * (1 + exponent * (0.6565 + 0.3435 * exponent)); // within 0.3 %
}

// About what one block takes in bytes, and how many blocks make up `bytes`.
static double mean_size(void) {
    double low = power(plan.low), high = power(plan.high);
    double mean = plan.spread == UNIFORM
                      ? (low + high) / 2
                      : (high - low + 1) / ((plan.high - plan.low) * 0.693 + 1e-6);
    return mean * (1 - plan.small) + (double)plan.small_bytes * plan.small;
}
static size_t blocks_in(double bytes, double size, size_t most) {
    double blocks = bytes / size;
    return blocks < 1 ? 1 : blocks > (double)most ? most : (size_t)blocks;
}

static void plan_program(uint64_t number) {
    static const unsigned threads[] = {1, 1, 1, 1, 1, 1, 2, 2, 4, 8};
    seed = number * 0x9E3779B97F4A7C15u + 88172645463325252u;
    for (unsigned i = 0; i < 8; i++) (void)draw();
    plan.threads = threads[draw() % 10];
    plan.order = (enum order)(draw() % ORDERS);
    plan.touched = (enum touched)(draw() % TOUCHED);
    plan.spread = (enum spread)(draw() % SPREADS);
    plan.shared = plan.threads > 1 && chance(0.4);
    bool narrow = chance(0.5);
    double one = 3.5 + part() * (narrow ? 12 : 21),
           other = narrow ? one + part() * 5 : 3.5 + part() * 21;
    plan.low = one < other ? one : other;
    plan.high = one < other ? other : one;
    plan.small = chance(0.3) ? part() : 0;
    plan.small_bytes = between(16, 516);
    plan.reallocs = chance(0.3) ? part() : 0;
    plan.callocs = chance(0.3) ? part() : 0;
    plan.aligned = chance(0.15) ? part() / 2 : 0;
    plan.freed = part();
    // 64 KiB to 190 MiB held; up to 400 MB touched in all, and up to 3 GB allocated.
    double size = mean_size();
    unsigned owners = plan.shared ? 1 : plan.threads;
    plan.slots = blocks_in(power(16 + part() * 11.5) / owners, size, 400000);
    bool little = plan.touched == FIRST_BYTE || plan.touched == FOUR_PLACES;
    double cost = 300 + (plan.order == GROWING         ? 3 * size
                         : plan.callocs > 0 || !little ? size
                                                       : 64);
    plan.count = blocks_in(4e8 / plan.threads, cost, 400000 / plan.threads);
    size_t most = blocks_in(3e9 / plan.threads, size, 400000);
    if (plan.count < 2 * plan.slots) plan.count = 2 * plan.slots;
    if (plan.count > most) plan.count = most;
    plan.seed = seed;
}

static int describe_program(void) {
    static const char* const orders[] = {"replaced at random", "replaced in turn",
                                         "last in first out",  "freed in part",
                                         "grown by realloc",   "one at a time"};
    static const char* const touches[] = {"first byte", "whole", "four places", "every other block",
                                          "first half"};
    static const char* const spreads[] = {"log-uniform", "uniform", "four sizes"};
    printf("%u threads%s, %s, %.0f to %.0f bytes %s, %.2f of them up to %zu; %zu held, %zu "
           "allocated by each; touched: %s; realloc %.2f, calloc %.2f, aligned %.2f, freed %.2f\n",
           plan.threads, plan.shared ? " that exchange blocks" : "", orders[plan.order],
           power(plan.low), power(plan.high), spreads[plan.spread], plan.small, plan.small_bytes,
           plan.slots, plan.count, touches[plan.touched], plan.reallocs, plan.callocs, plan.aligned,
           plan.freed);
    return 0;
}

static size_t draw_size(void) {
    if (chance(plan.small)) return between(16, plan.small_bytes);
    double at = plan.spread == FOUR_SIZES ? (double)(draw() % 4) / 4 : part();
    if (plan.spread != UNIFORM) return (size_t)power(plan.low + (plan.high - plan.low) * at);
    return (size_t)(power(plan.low) + (power(plan.high) - power(plan.low)) * at);
}

static void* touch_part(char* block, size_t bytes) {
    bool whole = plan.touched == WHOLE || (plan.touched == EVERY_OTHER_BLOCK && draw() % 2 == 0);
    touch(block, 0, whole ? bytes : plan.touched == FIRST_HALF ? (bytes + 1) / 2 : 1);
    for (unsigned i = 0; plan.touched == FOUR_PLACES && i < 4; i++) block[draw() % bytes] = 1;
    return block;
}

static void* take_any(void) {
    size_t bytes = draw_size();
    double kind = part();
    if (kind < plan.callocs) return touch_part(take_zeroed(bytes), bytes);
    if (kind < plan.callocs + plan.aligned) return touch_part(take_aligned(64, bytes), bytes);
    return touch_part(take_untouched(bytes), bytes);
}

static void* grow_to_any(void) {
    size_t end = draw_size(), bytes = 16;
    char* block = take_untouched(bytes);
    while (bytes < end) {
        size_t next = bytes + bytes / 2 + 16 < end ? bytes + bytes / 2 + 16 : end;
        block = resize(block, bytes, next);
        block[next - 1] = 1;
        bytes = next;
    }
    return block;
}

static void* resize_to_any(void* block) {
    size_t bytes = draw_size();
    uint64_t begun = call_begin();
    char* resized = realloc(block, bytes);
    call_end(begun);
    return touch_part(must(resized), bytes);
}

// Replaces one block, or all. Returns the number of blocks allocated.
static size_t replace_some(void** slot, size_t done) {
    size_t at = plan.order == REPLACE_IN_TURN || plan.order == GROWING ? done % plan.slots
                                                                       : draw() % plan.slots;
    switch (plan.order) {
    case LAST_FIRST:
        for (size_t i = 0; i < plan.slots; i++) slot[i] = take_any();
        for (size_t i = plan.slots; i-- > 0; slot[i] = NULL) give(slot[i]);
        return plan.slots;
    case PARTLY_FREED:
        for (size_t i = 0; i < plan.slots; i++) {
            if (slot[i] == NULL) slot[i] = take_any();
        }
        for (size_t i = 0; i < plan.slots; i++) {
            if (!chance(plan.freed)) continue;
            give(slot[i]);
            slot[i] = NULL;
        }
        return 1 + (size_t)(plan.freed * (double)plan.slots);
    case ONE_AT_A_TIME:
        give(take_any());
        return 1;
    default:
        if (slot[at] != NULL && plan.order != GROWING && chance(plan.reallocs)) {
            slot[at] = resize_to_any(slot[at]);
            return 1;
        }
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = plan.order == GROWING ? grow_to_any() : take_any();
        return 1;
    }
}

static _Atomic(void*)* exchanged;

static void* random_thread(void* argument) {
    const struct share* share = argument;
    seed = plan.seed + 991 * (share->index + 1);
    void** slot = calloc(plan.slots, sizeof *slot);
    for (size_t done = 0; done < plan.count;) {
        if (plan.shared) {
            void* old = atomic_exchange(&exchanged[draw() % plan.slots], take_any());
            if (old != NULL) give(old);
            done++;
        } else {
            done += replace_some(slot, done);
        }
    }
    give_all(slot, plan.slots);
    free(slot);
    thread_sum();
    return NULL;
}

static void random_program(const struct pattern* p) {
    struct share shares[8];
    for (unsigned i = 0; i < 8; i++) shares[i] = (struct share){p, NULL, i, plan.threads, false};
    if (plan.shared) exchanged = calloc(plan.slots, sizeof *exchanged);
    if (plan.threads == 1)
        random_thread(&shares[0]);
    else
        in_threads(plan.threads, random_thread, shares, sizeof *shares);
    for (size_t i = 0; plan.shared && i < plan.slots; i++) {
        void* block = atomic_exchange(&exchanged[i], NULL);
        if (block != NULL) give(block);
    }
    free(exchanged);
}
