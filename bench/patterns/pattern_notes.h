// What each kind of pattern stresses and what it does not show, by the function that runs it, for
// --list. Included by patterns.c.

struct pattern_note {
    void (*run)(const struct pattern* p);
    const char* stresses;
    const char* not_shown;
};

static const char SMALL_ONLY[] = "other threads, and blocks that live long";

static const struct pattern_note pattern_notes[] = {
    {replace, "reuse of a freed block for another size, and what is done with the rest of it",
     "lifetimes that depend on each other: each block is as likely to be freed as any other"},
    {replace_log,
     "small and large blocks side by side: whether one kind hinders the reuse of the other",
     "lifetimes that depend on each other: each block is as likely to be freed as any other"},
    {in_turn,
     "the shortest path from free to the next malloc; for large sizes what a freed block costs",
     "anything that needs two blocks at a time"},
    {in_turn_untouched, "what a large block costs whose memory is hardly used",
     "programs that fill their blocks"},
    {last_in_first_out, "free lists in the best order", SMALL_ONLY},
    {first_in_first_out,
     "free lists in the order of allocation; empty pages that become full again", SMALL_ONLY},
    {random_order, "free lists in random order: cache misses when blocks are allocated again",
     SMALL_ONLY},
    {queue, "a live set that moves through memory: each page fills and empties as a whole",
     "frees by another thread, as most queues have"},
    {zeroed, "whether memory that the system has just zeroed is zeroed again",
     "blocks without calloc"},
    {aligned_64, "aligned blocks: memory lost to alignment, and the time to find a place",
     "free with the alignment as an argument"},
    {aligned_4k, "aligned blocks: memory lost to alignment, and the time to find a place",
     "free with the alignment as an argument"},
    {aligned_64k, "aligned blocks: memory lost to alignment, and the time to find a place",
     "free with the alignment as an argument"},
    {aligned_2m, "aligned blocks: memory lost to alignment, and the time to find a place",
     "free with the alignment as an argument"},
    {double_up,
     "realloc: whether a growing block is extended in place, moved by the kernel or copied",
     "growth beside other blocks that occupy the memory behind"},
    {step_up, "realloc by small steps: how often a growing block is copied",
     "growth by doubling, as vectors do"},
    {shrink, "realloc to a smaller size: whether the rest is used again", "blocks that grow"},
    {resize_random, "realloc in both directions, with copies", "blocks that only grow"},
    {phases, "whether memory of one size is given to another size later: watch the peak",
     "sizes that are used at the same time"},
    {sawtooth, "return of memory after a peak, and its cost when the peak comes again",
     "a constant live set"},
    {holes, "fragmentation: pages that a few long-lived blocks keep: watch the peak",
     "frees that empty whole pages"},
    {checkerboard, "reuse of gaps between live blocks of the same size", "gaps of another size"},
    {frames, "many allocations and frees at once, above a set that grows slowly",
     "work of several threads, as most games have"},
    {small_and_large, "whether an occasional large block slows the small ones or raises the peak",
     "large blocks in numbers"},
    {tree, "locality: nodes that are allocated in random order and freed from the root",
     "nodes that are replaced one by one"},
    {remote_in_order, "frees by another thread, and reuse of these blocks by their owner",
     "threads that allocate and free at the same time"},
    {remote_random, "frees by another thread in random order: each touches another page",
     "threads that allocate and free at the same time"},
    {remote_random_two, "frees by several threads at once into the same pages",
     "threads that allocate and free at the same time"},
    {remote_random_four, "frees by several threads at once into the same pages",
     "threads that allocate and free at the same time"},
    {replace_two, "whether threads that share nothing wait for each other",
     "frees by other threads"},
    {replace_hundred, "memory and time of many threads on few processors",
     "frees by other threads"},
    {short_threads, "the start and the end of a thread's heap", "threads that live long"},
    {exchange, "blocks that another thread than their owner frees, at the same time",
     "blocks that stay with their thread"},
    {pipeline, "a thread that only allocates and one that only frees",
     "the cost of calls alone: both threads also wait for each other"},
    {head_only, "large blocks that are used in part (written against Keel's guess of use)",
     "programs that fill their blocks"},
    {filled_and_empty, "large blocks filled or not in turn (written against Keel's guess of use)",
     "programs whose blocks are alike"},
    {sizes_in_turn, "more sizes than a cache of freed blocks has room for",
     "one size, which such a cache serves"},
    {unit_holes, "single blocks that keep units of 2 MiB, and a size that does not fit the gaps",
     "frees that empty whole units"},
    {remote_sparse, "one remote free in each page", "remote frees in batches"},
    {fork_often, "fork of a process with many blocks: locks, helper threads, copied pages",
     "fork followed by exec"},
    {larger_each_time, "freed blocks that are always too small for the next", "sizes that recur"},
    {step_and_stay, "room behind growing blocks that is not used in the end: watch the peak",
     "blocks that grow on"},
};

// The note of a pattern; every pattern has one, which tests/support/synthetic.sh checks.
static const struct pattern_note* pattern_note(const struct pattern* p) {
    static const struct pattern_note none = {NULL, "", ""};
    for (size_t i = 0; i < sizeof pattern_notes / sizeof *pattern_notes; i++)
        if (pattern_notes[i].run == p->run) return &pattern_notes[i];
    return &none;
}

static int pattern_list(const struct pattern* patterns, size_t count) {
    for (const struct pattern* p = patterns; p < patterns + count; p++) {
        const struct pattern_note* note = pattern_note(p);
        printf("%s\t%s\t%s\tour own: a way of use that an allocator may meet\t%s\n", p->name,
               p->text, note->stresses, note->not_shown);
    }
    return 0;
}
