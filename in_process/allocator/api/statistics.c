// The functions of keel/statistics.h, where they are documented.
#include "keel/statistics.h"
#include "allocator/alloc/usage.h"
#include "allocator/api/message.h"
#include "allocator/api/report.h"
#include "allocator/api/tables.h"

static void output_message(const char* text, void* argument) {
    (void)argument;
    message_write(text);
}

static void part_print(const struct usage* usage, const char* title, kl_output* output,
                       void* argument) {
    if (output == NULL) output = output_message;
    output(title, argument);
    tables_sizes(usage, output, argument);
}

static size_t part_json(const struct usage* usage, char* buffer, size_t size) {
    struct text text;
    text_begin(&text, buffer, size);
    text_string(&text, "{");
    tables_sizes_json(usage, &text);
    text_string(&text, "}");
    return text.length;
}

static bool part_visit(const struct usage* usage, kl_size_visitor* visitor, void* argument) {
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        const struct usage_row* row = &usage->rows[i];
        if (row->pages == 0 && row->allocated == 0 && row->freed == 0) continue;
        struct kl_size_stats size = {
            .block_bytes = row_bytes(i),
            .allocated = row->allocated,
            .freed = row->freed,
            .used = row->used,
            .used_bytes = row->used_bytes,
            .pages = row->pages,
            .reserved_bytes = row->reserved_bytes,
        };
        if (!visitor(&size, argument)) return false;
    }
    return true;
}

bool kl_stats_visit(kl_size_visitor* visitor, void* argument) {
    struct usage usage;
    usage_of_process(&usage);
    return part_visit(&usage, visitor, argument);
}
bool kl_thread_stats_visit(kl_size_visitor* visitor, void* argument) {
    struct usage usage;
    usage_of_thread(&usage);
    return part_visit(&usage, visitor, argument);
}
void kl_thread_stats_print(kl_output* output, void* argument) {
    struct usage usage;
    usage_of_thread(&usage);
    part_print(&usage, "keel statistics of this thread\n", output, argument);
}
size_t kl_thread_stats_json(char* buffer, size_t size) {
    struct usage usage;
    usage_of_thread(&usage);
    return part_json(&usage, buffer, size);
}

static void usage_of(kl_heap_t* heap, struct usage* usage) {
    if (heap == kl_heap_backing())
        usage_of_thread(usage);
    else
        usage_of_heap((struct user_heap*)heap, usage);
}
bool kl_heap_stats_visit(kl_heap_t* heap, kl_size_visitor* visitor, void* argument) {
    struct usage usage;
    usage_of(heap, &usage);
    return part_visit(&usage, visitor, argument);
}
void kl_heap_stats_print(kl_heap_t* heap, kl_output* output, void* argument) {
    struct usage usage;
    usage_of(heap, &usage);
    part_print(&usage, "keel statistics of a heap\n", output, argument);
}
size_t kl_heap_stats_json(kl_heap_t* heap, char* buffer, size_t size) {
    struct usage usage;
    usage_of(heap, &usage);
    return part_json(&usage, buffer, size);
}

void kl_stats_reset(void) {
    report_reset();
}

void kl_thread_info(struct kl_thread* thread) {
    *thread = (struct kl_thread){0};
    const struct heap* heap = own_heap();
    if (heap == NULL) return;
    thread->thread_id = atomic_get(&heap->thread_id);
    thread->allocated = heap_blocks_given(heap);
    thread->pages = heap_pages_live(heap);
    thread->refills = atomic_get(&heap->counts[HEAP_REFILLS]);
    thread->pages_begun = atomic_get(&heap->counts[HEAP_PAGES_BEGUN]);
    thread->blocks_sent = atomic_get(&heap->counts[HEAP_BLOCKS_SENT]);
    thread->batches_taken = atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]);
}
