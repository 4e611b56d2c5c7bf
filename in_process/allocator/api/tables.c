#include "allocator/api/tables.h"

// --- Cells ---------------------------------------------------------------------------------------

struct line {
    struct text text;
    char buffer[160];
};

static void line_begin(struct line* line) {
    text_begin(&line->text, line->buffer, sizeof line->buffer);
}

// Writes the content at the right end of `width` further columns, after a space.
static void cell_text(struct line* line, const char* content, size_t width) {
    size_t length = 0;
    while (content[length] != '\0') length++;
    text_pad(&line->text, line->text.length, 1 + (length < width ? width - length : 0));
    text_string(&line->text, content);
}

static void cell_number(struct line* line, uint64_t value, size_t width) {
    char content[32];
    struct text text;
    text_begin(&text, content, sizeof content);
    text_decimal(&text, value);
    cell_text(line, content, width);
}

static void cell_bytes(struct line* line, uint64_t bytes, size_t width) {
    char content[32];
    struct text text;
    text_begin(&text, content, sizeof content);
    text_bytes(&text, bytes);
    cell_text(line, content, width);
}

static void line_end(struct line* line, kl_output* output, void* argument) {
    text_string(&line->text, "\n");
    output(line->buffer, argument);
}

static void member(struct text* text, const char* name, uint64_t value, bool first) {
    text_string(text, first ? "{\"" : ",\"");
    text_string(text, name);
    text_string(text, "\":");
    text_decimal(text, value);
}

// --- By size -------------------------------------------------------------------------------------

static bool is_empty(const struct usage_row* row) {
    return row->pages == 0 && row->allocated == 0 && row->freed == 0;
}

static void size_cells(struct line* line, const struct usage_row* row) {
    cell_number(line, row->allocated, 13);
    cell_number(line, row->freed, 13);
    cell_number(line, row->used, 11);
    cell_bytes(line, row->used_bytes, 11);
    cell_number(line, row->pages, 9);
    cell_bytes(line, row->reserved_bytes, 11);
}

void tables_sizes(const struct usage* usage, kl_output* output, void* argument) {
    output("blocks of        allocated         freed      in use       bytes     pages    "
           "reserved\n",
           argument);
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        if (is_empty(&usage->rows[i])) continue;
        struct line line;
        line_begin(&line);
        if (i < SIZE_COUNT)
            cell_number(&line, row_bytes(i), 11);
        else
            cell_bytes(&line, row_bytes(i), 11);
        size_cells(&line, &usage->rows[i]);
        line_end(&line, output, argument);
    }
    struct usage_row total = usage_total(usage);
    struct line line;
    line_begin(&line);
    cell_text(&line, "all", 11);
    size_cells(&line, &total);
    line_end(&line, output, argument);
}

static void size_members(struct text* text, const struct usage_row* row, bool first) {
    member(text, "allocated", row->allocated, first);
    member(text, "freed", row->freed, false);
    member(text, "used", row->used, false);
    member(text, "used_bytes", row->used_bytes, false);
    member(text, "pages", row->pages, false);
    member(text, "reserved_bytes", row->reserved_bytes, false);
    text_string(text, "}");
}

void tables_sizes_json(const struct usage* usage, struct text* text) {
    text_string(text, "\"sizes\":[");
    bool first = true;
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        if (is_empty(&usage->rows[i])) continue;
        if (!first) text_string(text, ",");
        first = false;
        member(text, "block_bytes", row_bytes(i), true);
        size_members(text, &usage->rows[i], false);
    }
    struct usage_row total = usage_total(usage);
    text_string(text, "],\"total\":");
    size_members(text, &total, true);
}

// --- By thread -----------------------------------------------------------------------------------

struct thread_row {
    uint32_t thread_id; // 0: the thread has ended, and the heap is parked
    uint64_t allocated;
    uint64_t pages;
    uint64_t refills;
    uint64_t blocks_sent;
    uint64_t batches_taken;
};

static struct thread_row row_of_thread(const struct heap* heap) {
    return (struct thread_row){
        .thread_id = atomic_get(&heap->thread_id),
        .allocated = heap_blocks_given(heap),
        .pages = heap_pages_live(heap),
        .refills = atomic_get(&heap->counts[HEAP_REFILLS]),
        .blocks_sent = atomic_get(&heap->counts[HEAP_BLOCKS_SENT]),
        .batches_taken = atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]),
    };
}

void tables_threads(kl_output* output, void* argument) {
    output("thread           allocated     pages       refills  sent to others   batches taken\n",
           argument);
    for (const struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        struct thread_row row = row_of_thread(heap);
        struct line line;
        line_begin(&line);
        if (row.thread_id != 0)
            cell_number(&line, row.thread_id, 11);
        else
            cell_text(&line, "(ended)", 11);
        cell_number(&line, row.allocated, 13);
        cell_number(&line, row.pages, 9);
        cell_number(&line, row.refills, 13);
        cell_number(&line, row.blocks_sent, 15);
        cell_number(&line, row.batches_taken, 15);
        line_end(&line, output, argument);
    }
}

void tables_threads_json(struct text* text) {
    text_string(text, "\"threads\":[");
    for (const struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        struct thread_row row = row_of_thread(heap);
        member(text, "thread_id", row.thread_id, true);
        member(text, "allocated", row.allocated, false);
        member(text, "pages", row.pages, false);
        member(text, "refills", row.refills, false);
        member(text, "remote_blocks_sent", row.blocks_sent, false);
        member(text, "remote_batches_taken", row.batches_taken, false);
        text_string(text, heap->next_all == NULL ? "}" : "},");
    }
    text_string(text, "]");
}

// --- By heap of the program ----------------------------------------------------------------------

struct heap_row {
    uint64_t address; // the program's kl_heap_t*
    uint64_t allocated;
    uint64_t pages;
    uint64_t large_blocks;
    uint64_t held_bytes;
    uint64_t limit_bytes;
};

// False: the struct is not a heap at the moment. Takes no lock, since a visitor of the heap may ask
// for the report.
static KEEL_UNRACED bool row_of_heap(struct user_heap* user, struct heap_row* row) {
    bool is_heap = user->kind == USER_HEAP_LIVE || user->kind == USER_HEAP_DELETED;
    *row = (struct heap_row){
        .address = (uintptr_t)user,
        .allocated = heap_blocks_given(&user->heap),
        .pages = heap_pages_live(&user->heap),
        .large_blocks = user->large_count,
        .held_bytes = user->heap.held_bytes,
        .limit_bytes = user->heap.limit_bytes,
    };
    for (unsigned i = 0; i < LARGE_ROWS; i++)
        row->allocated += atomic_get(&user->heap.large_given[i]);
    return is_heap;
}

void tables_heaps(kl_output* output, void* argument) {
    bool first = true;
    for (struct user_heap* user = user_heap_first(); user != NULL; user = user->next_all) {
        struct heap_row row;
        if (!row_of_heap(user, &row)) continue;
        if (first)
            output("heap                 allocated     pages     large        held       limit\n",
                   argument);
        first = false;
        struct line line;
        line_begin(&line);
        text_string(&line.text, " ");
        text_hex(&line.text, row.address);
        text_pad(&line.text, 0, 16);
        cell_number(&line, row.allocated, 13);
        cell_number(&line, row.pages, 9);
        cell_number(&line, row.large_blocks, 9);
        cell_bytes(&line, row.held_bytes, 11);
        if (row.limit_bytes != 0)
            cell_bytes(&line, row.limit_bytes, 11);
        else
            cell_text(&line, "none", 11);
        line_end(&line, output, argument);
    }
}

void tables_heaps_json(struct text* text) {
    text_string(text, "\"heaps\":[");
    bool first = true;
    for (struct user_heap* user = user_heap_first(); user != NULL; user = user->next_all) {
        struct heap_row row;
        if (!row_of_heap(user, &row)) continue;
        if (!first) text_string(text, ",");
        first = false;
        member(text, "address", row.address, true);
        member(text, "allocated", row.allocated, false);
        member(text, "pages", row.pages, false);
        member(text, "large_blocks", row.large_blocks, false);
        member(text, "held_bytes", row.held_bytes, false);
        member(text, "limit_bytes", row.limit_bytes, false);
        text_string(text, "}");
    }
    text_string(text, "]");
}
