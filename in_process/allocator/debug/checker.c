#include "allocator/debug/checker.h"
#include "allocator/debug/contents.h"

static void forbid_canary(const struct record* record) {
    const char* canary = record_block(record) + record->size;
    os_checker_forbid(canary, (size_t)(contents_end(record) - canary));
}

void checker_report_begin(const struct record* record, bool zeroed) {
    os_checker_forbid(record->start, record->prefix);
    os_checker_block_begins(record_block(record), record->size, zeroed);
    forbid_canary(record);
}

void checker_report_write(const struct record* record) {
    const char* canary = record_block(record) + record->size;
    os_checker_allow(canary, (size_t)(contents_end(record) - canary));
}

void checker_report_size(const struct record* record, size_t before, bool zeroed) {
    const size_t size = record->size;
    os_checker_block_resized(record_block(record), before, size);
    if (zeroed && size > before) os_checker_allow(record_block(record) + before, size - before);
    forbid_canary(record);
}

void checker_report_end(const struct record* record) {
    os_checker_block_ends(record_block(record), record->size);
}

void checker_report_leave(const struct record* record) {
    os_checker_allow(record->start, (size_t)(contents_end(record) - record->start));
}
