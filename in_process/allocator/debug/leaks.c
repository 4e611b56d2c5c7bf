#include "allocator/debug/leaks.h"
#include "allocator/debug/call_stack.h"
#include "allocator/debug/fault_report.h"
#include "allocator/space/arena.h"
#include "base/bits.h"
#include "os/memory.h"
#include "os/stack.h"
#include <string.h>

#define SITES_MOST 50u // call stacks that are printed
#define JUMBOS_MOST 256u
#define JUMBO_BYTES ((size_t)512 << 10) // smaller blocks are in slices
#define PIECE_WORDS 2048u
#define PIECE_BYTES (PIECE_WORDS * sizeof(uintptr_t))

// The search for reachable blocks. The arrays have an entry for each record.
static struct search {
    unsigned char* found;
    uint32_t* todo; // found blocks whose content has not been read
    uint32_t todo_count;
    uint32_t end;                 // record_end() at the beginning
    uint32_t jumbos[JUMBOS_MOST]; // records of blocks that may be mappings
    uint32_t jumbo_count;
    const char* unknown; // why it is not known which blocks are reachable; NULL: it is known
    uintptr_t piece[PIECE_WORDS];
} search;

static struct call_stack no_stack; // for blocks whose stack is not known

static bool is_live(struct record* record) {
    return record != NULL && (atomic_get(&record->state) & ~(uint32_t)RECORD_BUSY) == RECORD_LIVE;
}

// --- Reachable blocks ----------------------------------------------------------------------------

static void look_at_word(uintptr_t word) {
    struct record* record = record_around((const void*)word);
    if (record == NULL || !is_live(record)) return;
    uintptr_t block = (uintptr_t)record_block(record);
    uint32_t number = record_number(record);
    if (word < block || word > block + record->size) return;
    if (number >= search.end || search.found[number] != 0) return;
    search.found[number] = 1;
    search.todo[search.todo_count++] = number;
}

// Reads a part of at most PIECE_BYTES.
static void look_at_piece(uintptr_t start, size_t bytes) {
    size_t words = os_read_memory(start, search.piece, bytes) / sizeof(uintptr_t);
    for (size_t i = 0; i < words; i++) look_at_word(search.piece[i]);
}

static void look_at_range(uintptr_t start, uintptr_t end) {
    start = round_up(start, sizeof(uintptr_t));
    for (; start < end; start += PIECE_BYTES)
        look_at_piece(start, end - start < PIECE_BYTES ? end - start : PIECE_BYTES);
}

// Blocks are no roots. Blocks of slices are known by their address, other large ones from the list.
static bool is_root(uintptr_t start) {
    if (slices_contain((const void*)start)) return false;
    for (uint32_t i = 0; i < search.jumbo_count; i++) {
        const struct record* record = record_of_number(search.jumbos[i]);
        uintptr_t block = (uintptr_t)record->start;
        if (start >= block && start < block + record->prefix + record->size) return false;
    }
    return true;
}

static void look_at_root(uintptr_t start, uintptr_t end) {
    while (start < end) {
        uintptr_t next = round_down(start, PIECE_BYTES) + PIECE_BYTES;
        if (next > end) next = end;
        if (is_root(start)) look_at_piece(start, next - start);
        start = next;
    }
}

static void find_reachable(const struct os_maps* maps) {
    struct os_mapping mapping;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    for (size_t at = 0; os_maps_next(maps, &at, &mapping);) {
        if (!mapping.readable || !mapping.writable || mapping.shared) continue;
        // What is below on this stack are the report's own variables, and old ones.
        if (mapping.start <= here && here < mapping.end) mapping.start = here;
        look_at_root(mapping.start, mapping.end);
    }
    while (search.todo_count > 0) {
        const struct record* record = record_of_number(search.todo[--search.todo_count]);
        uintptr_t block = (uintptr_t)record_block(record);
        look_at_range(block, block + record->size);
    }
}

static void find_jumbos(void) {
    search.jumbo_count = 0;
    for (uint32_t number = 0; number < search.end; number++) {
        const struct record* record = record_of_number(number);
        if (record == NULL || record->size + record->prefix < JUMBO_BYTES) continue;
        if (atomic_get(&record->state) == RECORD_UNUSED) continue;
        if (search.jumbo_count < JUMBOS_MOST) search.jumbos[search.jumbo_count++] = number;
    }
}

// --- The report ----------------------------------------------------------------------------------

struct totals {
    uint64_t lost_blocks;
    uint64_t lost_bytes;
    uint64_t reachable_blocks;
    uint64_t reachable_bytes;
};

static struct totals count_live(void) {
    struct totals totals = {0, 0, 0, 0};
    for (uint32_t number = 0; number < search.end; number++) {
        struct record* record = record_of_number(number);
        if (!is_live(record)) continue;
        struct call_stack* stack = call_stack_of(record->allocated_stack);
        if (stack == NULL) stack = &no_stack;
        bool reachable = search.found[number] != 0;
        *(reachable ? &stack->reachable_blocks : &stack->lost_blocks) += 1;
        *(reachable ? &stack->reachable_bytes : &stack->lost_bytes) += record->size;
        *(reachable ? &totals.reachable_blocks : &totals.lost_blocks) += 1;
        *(reachable ? &totals.reachable_bytes : &totals.lost_bytes) += record->size;
    }
    return totals;
}

// The call stack that has lost, or still reaches, the most bytes.
struct choice {
    bool lost;
    uint64_t sites;
    struct call_stack* stack;
    uint32_t number;
};

static uint64_t blocks_of(const struct call_stack* stack, bool lost) {
    return lost ? stack->lost_blocks : stack->reachable_blocks;
}
static uint64_t bytes_of(const struct call_stack* stack, bool lost) {
    return lost ? stack->lost_bytes : stack->reachable_bytes;
}

static void choose(void* context, struct call_stack* stack, uint32_t number) {
    struct choice* choice = context;
    if (blocks_of(stack, choice->lost) == 0) return;
    choice->sites++;
    if (choice->stack != NULL &&
        bytes_of(stack, choice->lost) <= bytes_of(choice->stack, choice->lost))
        return;
    choice->stack = stack;
    choice->number = number;
}

static void text_blocks(struct text* text, uint64_t blocks, uint64_t bytes, const char* state) {
    text_decimal(text, blocks);
    text_string(text, blocks == 1 ? " block, " : " blocks, ");
    text_decimal(text, bytes);
    text_string(text, bytes == 1 ? " byte " : " bytes ");
    text_string(text, state);
}

static void print_site(const struct choice* choice, const struct os_maps* maps,
                       settings_output* output) {
    static char buffer[8192];
    struct text text;
    text_begin(&text, buffer, sizeof buffer);
    text_string(&text, "  ");
    text_blocks(&text, blocks_of(choice->stack, choice->lost),
                bytes_of(choice->stack, choice->lost),
                search.unknown != NULL ? "live"
                : choice->lost         ? "lost"
                                       : "reachable");
    text_string(&text, ", allocated at:\n");
    report_stack(&text, maps, choice->number);
    output(buffer);
}

static void print_sites(bool lost, const struct os_maps* maps, settings_output* output) {
    for (unsigned printed = 0;; printed++) {
        struct choice choice = {lost, 0, NULL, 0};
        choose(&choice, &no_stack, 0);
        call_stack_visit(choose, &choice);
        if (choice.stack == NULL) return;
        if (printed == SITES_MOST) {
            char line[64];
            struct text text;
            text_begin(&text, line, sizeof line);
            text_string(&text, "  and ");
            text_decimal(&text, choice.sites);
            text_string(&text, " more call stacks\n");
            output(line);
            return;
        }
        print_site(&choice, maps, output);
        *(lost ? &choice.stack->lost_blocks : &choice.stack->reachable_blocks) = 0;
    }
}

static void print_totals(const struct totals* totals, settings_output* output) {
    char line[200];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "keel: at the end: ");
    if (search.unknown == NULL) {
        text_blocks(&text, totals->lost_blocks, totals->lost_bytes, "lost; ");
        text_blocks(&text, totals->reachable_blocks, totals->reachable_bytes, "reachable\n");
    } else {
        text_blocks(&text, totals->lost_blocks, totals->lost_bytes, "live; which are lost is not ");
        text_string(&text, "known, because the system refuses ");
        text_string(&text, search.unknown);
        text_string(&text, "\n");
    }
    output(line);
}

static const char* why_unknown(bool has_maps) {
    uintptr_t word;
    if (!has_maps) return "to read /proc/self/maps";
    bool reads = os_read_memory((uintptr_t)&search, &word, sizeof word) == sizeof word;
    return reads ? NULL : "the system call process_vm_readv";
}

// The search's own arrays are mapped before the mappings are read, and contain no addresses.
void leaks_report(settings_output* output) {
    struct os_maps maps;
    search.end = record_end();
    size_t page = os_page_bytes();
    size_t found_bytes = round_up(search.end + 1, page);
    size_t todo_bytes = round_up((search.end + 1) * sizeof(uint32_t), page);
    search.found = os_map(found_bytes, page);
    search.todo = os_map(todo_bytes, page);
    if (search.found != NULL && search.todo != NULL) {
        bool has_maps = os_maps_read(&maps);
        search.unknown = why_unknown(has_maps);
        find_jumbos();
        if (search.unknown == NULL) find_reachable(&maps);
        struct totals totals = count_live();
        print_totals(&totals, output);
        print_sites(true, &maps, output);
        print_sites(false, &maps, output);
        if (has_maps) os_maps_free(&maps);
    } else {
        output("keel: at the end: there is no memory for the list of leaks\n");
    }
    if (search.found != NULL) os_unmap(search.found, found_bytes);
    if (search.todo != NULL) os_unmap(search.todo, todo_bytes);
}
