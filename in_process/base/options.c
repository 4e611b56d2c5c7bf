#include "base/options.h"
#include <stddef.h>

struct options options = {
    .keeper = KEEPER_AUTO,
    .stats_at_exit = false,
    .abort_on_foreign_free = false,
    .purge_delay_ms = 500,
};

// The value if `entry` is "NAME=VALUE" for this name, else NULL.
static const char* value_of(const char* entry, const char* name) {
    while (*name != '\0' && *entry == *name) {
        entry++;
        name++;
    }
    return *name == '\0' && *entry == '=' ? entry + 1 : NULL;
}

static bool text_equals(const char* a, const char* b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static void parse_switch(const char* value, bool* option) {
    if (text_equals(value, "1") || text_equals(value, "on")) *option = true;
    if (text_equals(value, "0") || text_equals(value, "off")) *option = false;
}

static void parse_keeper(const char* value, enum keeper_choice* option) {
    if (text_equals(value, "auto")) *option = KEEPER_AUTO;
    if (text_equals(value, "on") || text_equals(value, "1")) *option = KEEPER_ALWAYS;
    if (text_equals(value, "off") || text_equals(value, "0")) *option = KEEPER_NEVER;
}

static void parse_number(const char* value, uint32_t* option) {
    uint64_t number = 0;
    if (*value == '\0') return;
    for (; *value != '\0'; value++) {
        if (*value < '0' || *value > '9' || number > UINT32_MAX / 10) return;
        number = number * 10 + (uint64_t)(*value - '0');
    }
    if (number <= UINT32_MAX) *option = (uint32_t)number;
}

void options_parse(char* const* environment) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const char* entry = *environment;
        const char* value;
        if (entry[0] != 'K') continue;
        if ((value = value_of(entry, "KEEL_STATS")) != NULL) {
            parse_switch(value, &options.stats_at_exit);
        } else if ((value = value_of(entry, "KEEL_KEEPER")) != NULL) {
            parse_keeper(value, &options.keeper);
        } else if ((value = value_of(entry, "KEEL_FOREIGN_FREE")) != NULL) {
            options.abort_on_foreign_free = text_equals(value, "abort");
        } else if ((value = value_of(entry, "KEEL_PURGE_DELAY_MS")) != NULL) {
            parse_number(value, &options.purge_delay_ms);
        }
    }
}
