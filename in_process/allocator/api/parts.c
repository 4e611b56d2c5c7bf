// The functions of keel/statistics.h, where they are documented.
#include "allocator/alloc/census.h"
#include "allocator/api/message.h"
#include "allocator/api/statistics.h"
#include "allocator/api/tables.h"
#include "keel/statistics.h"

static void output_message(const char* text, void* argument) {
    (void)argument;
    message_write(text);
}

static void part_print(const struct census* census, const char* title, kl_output* output,
                       void* argument) {
    if (output == NULL) output = output_message;
    output(title, argument);
    tables_sizes(census, output, argument);
}

static size_t part_json(const struct census* census, char* buffer, size_t size) {
    struct text text;
    text_begin(&text, buffer, size);
    text_string(&text, "{");
    tables_sizes_json(census, &text);
    text_string(&text, "}");
    return text.length;
}

static bool part_visit(const struct census* census, kl_size_visitor* visitor, void* argument) {
    for (unsigned i = 0; i < COUNT_ROWS; i++) {
        const struct census_row* row = &census->rows[i];
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
    struct census census;
    census_of_process(&census);
    return part_visit(&census, visitor, argument);
}
bool kl_thread_stats_visit(kl_size_visitor* visitor, void* argument) {
    struct census census;
    census_of_thread(&census);
    return part_visit(&census, visitor, argument);
}
void kl_thread_stats_print(kl_output* output, void* argument) {
    struct census census;
    census_of_thread(&census);
    part_print(&census, "keel statistics of this thread\n", output, argument);
}
size_t kl_thread_stats_json(char* buffer, size_t size) {
    struct census census;
    census_of_thread(&census);
    return part_json(&census, buffer, size);
}

static void census_of(kl_heap_t* heap, struct census* census) {
    if (heap == kl_heap_backing())
        census_of_thread(census);
    else
        census_of_heap((struct shared*)heap, census);
}
bool kl_heap_stats_visit(kl_heap_t* heap, kl_size_visitor* visitor, void* argument) {
    struct census census;
    census_of(heap, &census);
    return part_visit(&census, visitor, argument);
}
void kl_heap_stats_print(kl_heap_t* heap, kl_output* output, void* argument) {
    struct census census;
    census_of(heap, &census);
    part_print(&census, "keel statistics of a heap\n", output, argument);
}
size_t kl_heap_stats_json(kl_heap_t* heap, char* buffer, size_t size) {
    struct census census;
    census_of(heap, &census);
    return part_json(&census, buffer, size);
}

void kl_stats_reset(void) {
    statistics_reset();
}

void kl_thread_info(struct kl_thread* thread) {
    *thread = (struct kl_thread){0};
    const struct heap* heap = first_class_own();
    if (heap == NULL) return;
    thread->thread_id = atomic_get(&heap->thread_id);
    thread->allocated = census_given(heap);
    thread->pages = census_pages(heap);
    thread->refills = atomic_get(&heap->counts[HEAP_REFILL]);
    thread->pages_begun = atomic_get(&heap->counts[HEAP_PAGE_BEGUN]);
    thread->blocks_sent = atomic_get(&heap->counts[HEAP_BLOCKS_SENT]);
    thread->batches_taken = atomic_get(&heap->counts[HEAP_BATCH_TAKEN]);
}
