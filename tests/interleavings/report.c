// Prints a schedule in readable form.
#include "engine.h"
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 32u

static struct {
    const char* start;
    size_t bytes;
    const char* name;
} names[NAMES_MAX];
static unsigned names_count;

void explore_name(const void* start, size_t bytes, const char* name) {
    if (names_count == NAMES_MAX) return;
    names[names_count].start = start;
    names[names_count].bytes = bytes;
    names[names_count++].name = name;
}

static const char* value_text(uint64_t value, char text[64]) {
    for (unsigned i = 0; i < names_count; i++) {
        uint64_t offset = value - (uint64_t)(uintptr_t)names[i].start;
        if (offset >= names[i].bytes) continue;
        if (offset == 0)
            snprintf(text, 64, "%s", names[i].name);
        else
            snprintf(text, 64, "%s+%lu", names[i].name, (unsigned long)offset);
        return text;
    }
    snprintf(text, 64, value < 4096 ? "%lu" : "0x%lx", (unsigned long)value);
    return text;
}

static void step_line(int file, unsigned number, const struct event* event, const char* thread) {
    const struct verb_site* site = event->step.site;
    const char* base = strrchr(site->file, '/');
    char seen[64];
    char left[64];
    dprintf(file, "  %3u. %-10s", number, thread);
    if (event->step.access == ACCESS_NONE) {
        dprintf(file, " %s\n", site->verb);
        return;
    }
    dprintf(file, " %s:%d %s: %s %s: ", base != NULL ? base + 1 : site->file, site->line,
            site->function, site->verb, site->what);
    dprintf(file, event->seen == event->left ? "%s" : "%s -> %s", value_text(event->seen, seen),
            value_text(event->left, left));
    if (event->weak)
        dprintf(file, event->step.access == ACCESS_READ ? "  (stale)" : "  (fails for no reason)");
    dprintf(file, "\n");
}

void report_schedule(int file, const struct explore_scenario* scenario) {
    const struct event* events = search_events();
    dprintf(file, "the schedule, %u steps:\n", search_depth());
    for (unsigned i = 0; i < search_depth(); i++)
        step_line(file, i + 1, &events[i], scenario->called[events[i].thread]);
}
