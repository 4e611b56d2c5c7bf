#include "allocator/api/statistics.h"
#include "allocator/alloc/census.h"
#include "allocator/api/message.h"
#include "allocator/api/tables.h"
#include "allocator/api/tail_report.h"
#include "allocator/arena/limit.h"
#include "allocator/arena/run.h"
#include "allocator/heap/pool.h"
#include "base/counters.h"
#include "base/format.h"
#include "os/process.h"

#define NAME_COLUMN 28

static const char* heap_count_name(enum heap_count count) {
    static const char* const names[HEAP_COUNTS] = {
        [HEAP_REFILL] = "refills",
        [HEAP_CARVE] = "carves",
        [HEAP_PAGE_BEGUN] = "pages_begun",
        [HEAP_PAGE_ENDED] = "pages_ended",
        [HEAP_BATCH_SENT] = "remote_batches_sent",
        [HEAP_MAIL_SENT] = "remote_mails_sent",
        [HEAP_BATCH_TAKEN] = "remote_batches_taken",
        [HEAP_BLOCKS_SENT] = "remote_blocks_sent",
    };
    return names[count];
}

// As far as the process had come when it was reset.
static struct {
    atomic_bits counts[HEAP_COUNTS];
    atomic_bits events[EVENT_COUNT];
} baseline;

static uint64_t since(uint64_t value, const atomic_bits* base) {
    uint64_t before = atomic_get(base);
    return value > before ? value - before : 0;
}

static uint64_t heap_count_total(enum heap_count count) {
    uint64_t total = atomic_get(&shared_counts_before[count]);
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        total += atomic_get(&heap->counts[count]);
    }
    for (struct shared* shared = shared_first(); shared != NULL; shared = shared->next_all) {
        total += atomic_get(&shared->heap.counts[count]);
    }
    return total;
}

void statistics_reset(void) {
    for (unsigned i = 0; i < HEAP_COUNTS; i++)
        atomic_set(&baseline.counts[i], heap_count_total((enum heap_count)i));
    for (unsigned i = 0; i < EVENT_COUNT; i++)
        atomic_set(&baseline.events[i], atomic_get(&counters.events[i]));
    tail_report_reset();
    census_reset();
}

void statistics_process(struct kl_process* process) {
    struct os_usage usage;
    os_usage(&usage);
    *process = (struct kl_process){
        .elapsed_ms = os_clock_ms() - counters.started_ms,
        .user_ms = usage.user_ms,
        .system_ms = usage.system_ms,
        .rss_bytes = usage.rss_bytes,
        .rss_peak_bytes = usage.rss_peak_bytes,
        .major_faults = usage.major_faults,
        .minor_faults = usage.minor_faults,
        .held_bytes = limit_held_bytes(),
        .unused_bytes = run_dirty_slices() * SLICE_BYTES,
    };
}

// Every figure of the report, in its order: the one list that both forms are made from.
typedef void figure_visitor(void* context, const char* name, uint64_t value, bool bytes);

static void figures_visit(figure_visitor* visit, void* context) {
    struct kl_process process;
    statistics_process(&process);
    visit(context, "elapsed_ms", process.elapsed_ms, false);
    visit(context, "user_ms", process.user_ms, false);
    visit(context, "system_ms", process.system_ms, false);
    visit(context, "rss_bytes", process.rss_bytes, true);
    visit(context, "rss_peak_bytes", process.rss_peak_bytes, true);
    visit(context, "major_faults", process.major_faults, false);
    visit(context, "minor_faults", process.minor_faults, false);
    visit(context, "held_bytes", process.held_bytes, true);
    visit(context, "unused_bytes", process.unused_bytes, true);
    for (unsigned i = 0; i < HEAP_COUNTS; i++) {
        uint64_t total = heap_count_total((enum heap_count)i);
        visit(context, heap_count_name((enum heap_count)i), since(total, &baseline.counts[i]),
              false);
    }
    for (unsigned i = 0; i < EVENT_COUNT; i++) {
        uint64_t count = since(atomic_get(&counters.events[i]), &baseline.events[i]);
        visit(context, event_name((enum event)i), count, false);
    }
    for (unsigned i = 0; KEEL_COUNT && i < WORK_COUNT; i++) {
        visit(context, work_name((enum work)i), atomic_get(&counters.worst[i]), false);
    }
}

static void output_message(const char* text, void* argument) {
    (void)argument;
    message_write(text);
}

struct table {
    kl_output* output;
    void* argument;
};

static void table_row(void* context, const char* name, uint64_t value, bool bytes) {
    struct table* table = context;
    char line[96];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "  ");
    text_string(&text, name);
    text_pad(&text, 0, NAME_COLUMN);
    if (bytes)
        text_bytes(&text, value);
    else
        text_decimal(&text, value);
    text_string(&text, "\n");
    table->output(line, table->argument);
}

void statistics_print(kl_output* output, void* argument) {
    struct table table = {output != NULL ? output : output_message, argument};
    table.output("keel statistics\n", argument);
    figures_visit(table_row, &table);
    struct census census;
    census_of_process(&census);
    tables_sizes(&census, table.output, argument);
    tables_threads(table.output, argument);
    tables_heaps(table.output, argument);
    tail_report_print(table.output, argument);
}

struct object {
    struct text text;
    bool begun;
};

static void object_member(void* context, const char* name, uint64_t value, bool bytes) {
    (void)bytes;
    struct object* object = context;
    text_string(&object->text, object->begun ? ",\"" : "{\"");
    text_string(&object->text, name);
    text_string(&object->text, "\":");
    text_decimal(&object->text, value);
    object->begun = true;
}

size_t statistics_json(char* buffer, size_t size) {
    struct object object = {.begun = false};
    text_begin(&object.text, buffer, size);
    figures_visit(object_member, &object);
    struct census census;
    census_of_process(&census);
    text_string(&object.text, ",");
    tables_sizes_json(&census, &object.text);
    text_string(&object.text, ",");
    tables_threads_json(&object.text);
    text_string(&object.text, ",");
    tables_heaps_json(&object.text);
    text_string(&object.text, ",");
    tail_report_json(&object.text);
    text_string(&object.text, "}");
    return object.text.length;
}
