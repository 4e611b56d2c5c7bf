#include "allocator/api/report.h"
#include "allocator/alloc/usage.h"
#include "allocator/api/message.h"
#include "allocator/api/tables.h"
#include "allocator/heap/pool.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/cycles.h"
#include "base/format.h"
#include "os/process.h"

#define NAME_COLUMN 28

// --- Durations of the slow paths -----------------------------------------------------------------

static const char* const path_names[SLOW_PATH_COUNT] = {
    [SLOW_PATH_DRAIN] = "drain",
    [SLOW_PATH_FRESH_PAGE] = "fresh_page",
    [SLOW_PATH_PAGE_EMPTIED] = "page_emptied",
    [SLOW_PATH_LARGE_MALLOC] = "large_malloc",
    [SLOW_PATH_LARGE_FREE] = "large_free",
    [SLOW_PATH_REMOTE_SENT] = "remote_sent",
};

struct histogram {
    uint64_t counts[SLOW_PATH_BUCKETS];
    uint64_t calls;
};

static atomic_bits path_baseline[SLOW_PATH_COUNT][SLOW_PATH_BUCKETS];

static uint64_t bucket_total(unsigned path, unsigned bucket) {
    uint64_t total = 0;
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        total += atomic_get(&heap->slow_paths.counts[path][bucket]);
    return total;
}

static void slow_paths_reset(void) {
    for (unsigned path = 0; path < SLOW_PATH_COUNT; path++) {
        for (unsigned i = 0; i < SLOW_PATH_BUCKETS; i++)
            atomic_set(&path_baseline[path][i], bucket_total(path, i));
    }
}

static struct histogram histogram_of(enum slow_path path) {
    struct histogram sum = {.calls = 0};
    for (unsigned i = 0; i < SLOW_PATH_BUCKETS; i++) {
        uint64_t total = bucket_total(path, i);
        uint64_t before = atomic_get(&path_baseline[path][i]);
        sum.counts[i] = total > before ? total - before : 0;
        sum.calls += sum.counts[i];
    }
    return sum;
}

// Returns the units of the durations' clock per millisecond. Compares this clock with the system's
// clock since the start of the process. The longer the process has run, the more exact the result
// is.
static uint64_t cycles_a_ms(void) {
    uint64_t ms = os_clock_ms() - counted_since.ms;
    uint64_t cycles = cycles_now() - counted_since.cycles;
    return cycles / (ms > 0 ? ms : 1);
}

// Returns the upper end of a bucket in ns. All durations of the bucket are shorter.
static uint64_t bucket_end_ns(unsigned bucket, uint64_t per_ms) {
    return per_ms == 0 ? 0 : (UINT64_C(2) << bucket) * 1000000 / per_ms;
}

// Returns the bucket of the call that is slower than all but `above` calls.
static unsigned bucket_with_above(const struct histogram* histogram, uint64_t above) {
    unsigned bucket = SLOW_PATH_BUCKETS - 1;
    for (uint64_t seen = histogram->counts[bucket]; seen <= above && bucket > 0;)
        seen += histogram->counts[--bucket];
    return bucket;
}

static void column(struct text* text, uint64_t value, size_t end) {
    text_string(text, " ");
    text_decimal(text, value);
    text_pad(text, 0, end);
}

static void slow_paths_print(kl_output* output, void* argument) {
    uint64_t per_ms = cycles_a_ms();
    output("slow paths, ns (less than)  calls        p50        p99        p99.9      worst\n",
           argument);
    for (unsigned path = 0; path < SLOW_PATH_COUNT; path++) {
        struct histogram histogram = histogram_of((enum slow_path)path);
        if (histogram.calls == 0) continue;
        char line[128];
        struct text text;
        text_begin(&text, line, sizeof line);
        text_string(&text, "  ");
        text_string(&text, path_names[path]);
        text_pad(&text, 0, 27);
        column(&text, histogram.calls, 40);
        const uint64_t above[] = {histogram.calls / 2, histogram.calls / 100,
                                  histogram.calls / 1000, 0};
        for (unsigned i = 0; i < 4; i++) {
            column(&text, bucket_end_ns(bucket_with_above(&histogram, above[i]), per_ms),
                   51 + 11 * i);
        }
        text_string(&text, "\n");
        output(line, argument);
    }
}

static void path_json(struct text* text, enum slow_path path, uint64_t per_ms) {
    struct histogram histogram = histogram_of(path);
    text_string(text, "\"");
    text_string(text, path_names[path]);
    text_string(text, "\":{\"calls\":");
    text_decimal(text, histogram.calls);
    text_string(text, ",\"less_than_ns\":[");
    bool first = true;
    for (unsigned i = 0; i < SLOW_PATH_BUCKETS; i++) {
        if (histogram.counts[i] == 0) continue;
        text_string(text, first ? "[" : ",[");
        text_decimal(text, bucket_end_ns(i, per_ms));
        text_string(text, ",");
        text_decimal(text, histogram.counts[i]);
        text_string(text, "]");
        first = false;
    }
    text_string(text, "]}");
}

static void slow_paths_json(struct text* text) {
    uint64_t per_ms = cycles_a_ms();
    text_string(text, "\"slow_paths\":{");
    for (unsigned path = 0; path < SLOW_PATH_COUNT; path++) {
        if (path > 0) text_string(text, ",");
        path_json(text, (enum slow_path)path, per_ms);
    }
    text_string(text, "}");
}

// --- Counts --------------------------------------------------------------------------------------

static const char* heap_count_name(enum heap_count count) {
    static const char* const names[HEAP_COUNTS] = {
        [HEAP_REFILLS] = "refills",
        [HEAP_CARVES] = "carves",
        [HEAP_PAGES_BEGUN] = "pages_begun",
        [HEAP_PAGES_ENDED] = "pages_ended",
        [HEAP_BATCHES_SENT] = "remote_batches_sent",
        [HEAP_PAGES_ANNOUNCED] = "remote_pages_announced",
        [HEAP_BATCHES_TAKEN] = "remote_batches_taken",
        [HEAP_BLOCKS_SENT] = "remote_blocks_sent",
    };
    return names[count];
}

// The counts at the last reset.
static struct {
    atomic_bits counts[HEAP_COUNTS];
    atomic_bits events[EVENT_COUNT];
} baseline;

static uint64_t since(uint64_t value, const atomic_bits* base) {
    uint64_t before = atomic_get(base);
    return value > before ? value - before : 0;
}

static uint64_t heap_count_total(enum heap_count count) {
    uint64_t total = atomic_get(&user_heap_counts_before[count]);
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all) {
        total += atomic_get(&heap->counts[count]);
    }
    for (struct user_heap* user = user_heap_first(); user != NULL; user = user->next_all) {
        total += atomic_get(&user->heap.counts[count]);
    }
    return total;
}

void report_reset(void) {
    for (unsigned i = 0; i < HEAP_COUNTS; i++)
        atomic_set(&baseline.counts[i], heap_count_total((enum heap_count)i));
    for (unsigned i = 0; i < EVENT_COUNT; i++)
        atomic_set(&baseline.events[i], event_total((enum event)i));
    slow_paths_reset();
    usage_reset();
}

void report_process(struct kl_process* process) {
    struct os_usage usage;
    os_usage(&usage);
    *process = (struct kl_process){
        .elapsed_ms = os_clock_ms() - counted_since.ms,
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

// Receives every figure of the report in order. Both forms of the report are made from this one
// list.
typedef void figure_visitor(void* context, const char* name, uint64_t value, bool bytes);

static void figures_visit(figure_visitor* visit, void* context) {
    struct kl_process process;
    report_process(&process);
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
        uint64_t count = since(event_total((enum event)i), &baseline.events[i]);
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

void report_print(kl_output* output, void* argument) {
    struct table table = {output != NULL ? output : output_message, argument};
    table.output("keel statistics\n", argument);
    figures_visit(table_row, &table);
    struct usage usage;
    usage_of_process(&usage);
    tables_sizes(&usage, table.output, argument);
    tables_threads(table.output, argument);
    tables_heaps(table.output, argument);
    slow_paths_print(table.output, argument);
}

struct json {
    struct text text;
    bool begun;
};

static void object_member(void* context, const char* name, uint64_t value, bool bytes) {
    (void)bytes;
    struct json* json = context;
    text_string(&json->text, json->begun ? ",\"" : "{\"");
    text_string(&json->text, name);
    text_string(&json->text, "\":");
    text_decimal(&json->text, value);
    json->begun = true;
}

size_t report_json(char* buffer, size_t size) {
    struct json json = {.begun = false};
    text_begin(&json.text, buffer, size);
    figures_visit(object_member, &json);
    struct usage usage;
    usage_of_process(&usage);
    text_string(&json.text, ",");
    tables_sizes_json(&usage, &json.text);
    text_string(&json.text, ",");
    tables_threads_json(&json.text);
    text_string(&json.text, ",");
    tables_heaps_json(&json.text);
    text_string(&json.text, ",");
    slow_paths_json(&json.text);
    text_string(&json.text, "}");
    return json.text.length;
}
