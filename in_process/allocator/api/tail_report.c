#include "allocator/api/tail_report.h"
#include "allocator/heap/pool.h"
#include "base/counters.h"
#include "base/cycles.h"
#include "os/process.h"

static const char* const path_names[TAIL_PATHS] = {
    [TAIL_DRAIN] = "drain",
    [TAIL_FRESH_PAGE] = "fresh_page",
    [TAIL_PAGE_EMPTIED] = "page_emptied",
    [TAIL_LARGE_MALLOC] = "large_malloc",
    [TAIL_LARGE_FREE] = "large_free",
    [TAIL_REMOTE_SENT] = "remote_sent",
};

struct histogram {
    uint64_t counts[TAIL_BUCKETS];
    uint64_t calls;
};

static atomic_bits baseline[TAIL_PATHS][TAIL_BUCKETS];

static uint64_t bucket_total(unsigned path, unsigned bucket) {
    uint64_t total = 0;
    for (struct heap* heap = heap_first(); heap != NULL; heap = heap->next_all)
        total += atomic_get(&heap->tail.counts[path][bucket]);
    return total;
}

void tail_report_reset(void) {
    for (unsigned path = 0; path < TAIL_PATHS; path++) {
        for (unsigned i = 0; i < TAIL_BUCKETS; i++)
            atomic_set(&baseline[path][i], bucket_total(path, i));
    }
}

static struct histogram histogram_of(enum tail_path path) {
    struct histogram sum = {.calls = 0};
    for (unsigned i = 0; i < TAIL_BUCKETS; i++) {
        uint64_t total = bucket_total(path, i);
        uint64_t before = atomic_get(&baseline[path][i]);
        sum.counts[i] = total > before ? total - before : 0;
        sum.calls += sum.counts[i];
    }
    return sum;
}

// The clock of the durations, in units a millisecond: compared with the system's clock since the
// start of the process, which is the more exact the longer ago that is.
static uint64_t cycles_a_ms(void) {
    uint64_t ms = os_clock_ms() - counters.started_ms;
    uint64_t cycles = cycles_now() - counters.started_cycles;
    return cycles / (ms > 0 ? ms : 1);
}

// The end of a bucket: its durations are shorter, in ns.
static uint64_t bucket_end_ns(unsigned bucket, uint64_t per_ms) {
    return per_ms == 0 ? 0 : (UINT64_C(2) << bucket) * 1000000 / per_ms;
}

// The bucket in which the call stands that only `above` calls take longer than.
static unsigned bucket_with_above(const struct histogram* histogram, uint64_t above) {
    unsigned bucket = TAIL_BUCKETS - 1;
    for (uint64_t seen = histogram->counts[bucket]; seen <= above && bucket > 0;)
        seen += histogram->counts[--bucket];
    return bucket;
}

static void column(struct text* text, uint64_t value, size_t end) {
    text_string(text, " ");
    text_decimal(text, value);
    text_pad(text, 0, end);
}

void tail_report_print(kl_output* output, void* argument) {
    uint64_t per_ms = cycles_a_ms();
    output("slow paths, ns (less than)  calls        p50        p99        p99.9      worst\n",
           argument);
    for (unsigned path = 0; path < TAIL_PATHS; path++) {
        struct histogram histogram = histogram_of((enum tail_path)path);
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

static void path_json(struct text* text, enum tail_path path, uint64_t per_ms) {
    struct histogram histogram = histogram_of(path);
    text_string(text, "\"");
    text_string(text, path_names[path]);
    text_string(text, "\":{\"calls\":");
    text_decimal(text, histogram.calls);
    text_string(text, ",\"less_than_ns\":[");
    bool first = true;
    for (unsigned i = 0; i < TAIL_BUCKETS; i++) {
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

void tail_report_json(struct text* text) {
    uint64_t per_ms = cycles_a_ms();
    text_string(text, "\"slow_paths\":{");
    for (unsigned path = 0; path < TAIL_PATHS; path++) {
        if (path > 0) text_string(text, ",");
        path_json(text, (enum tail_path)path, per_ms);
    }
    text_string(text, "}");
}
