#include "base/options.h"

atomic_signed option_values[OPTION_COUNT] = {
    [OPTION_RESET_DELAY] = 500,
    [OPTION_MAX_ERRORS] = 16,
    [OPTION_KEEPER] = KEEPER_AUTO,
    [OPTION_FOREIGN_FREE] = KEEL_SECURE || KEEL_DEBUG,
    [OPTION_GUARD_HANDLER] = 1,
    [OPTION_SIZED_FREE] = KEEL_SECURE || KEEL_DEBUG ? SIZED_FREE_ABORT : SIZED_FREE_ANY,
    [3] = 1,    // mimalloc's eager_commit, without effect
    [15] = 100, // mimalloc's os_tag, without effect
};

// The source of the value in force. A source overrides those before it in this list.
enum source { BY_DEFAULT, BY_MIMALLOC_NAME, BY_NAME, BY_CALL };
static atomic_state sources[OPTION_COUNT];

static const char* const names[OPTION_COUNT] = {
    [OPTION_SHOW_ERRORS] = "show_errors",
    [OPTION_SHOW_STATS] = "show_stats",
    [OPTION_VERBOSE] = "verbose",
    [OPTION_LARGE_OS_PAGES] = "large_os_pages",
    [OPTION_RESERVE_HUGE_OS_PAGES] = "reserve_huge_os_pages",
    [OPTION_RESET_DELAY] = "reset_delay",
    [OPTION_USE_NUMA_NODES] = "use_numa_nodes",
    [OPTION_MAX_ERRORS] = "max_errors",
    [OPTION_KEEPER] = "keeper",
    [OPTION_FOREIGN_FREE] = "foreign_free",
    [OPTION_LIMIT] = "limit",
    [OPTION_ZERO_ON_FREE] = "zero_on_free",
    [OPTION_GUARD_RATE] = "guard_rate",
    [OPTION_GUARD_SEED] = "guard_seed",
    [OPTION_GUARD_HANDLER] = "guard_handler",
    [OPTION_SIZED_FREE] = "sized_free",
};

// Second names.
static const struct {
    const char* name;
    enum option option;
} second_names[] = {{"stats", OPTION_SHOW_STATS}, {"purge_delay_ms", OPTION_RESET_DELAY}};

#define ANY OPTION_COUNT
static const struct {
    const char* word;
    int64_t value;
    enum option option; // that the word is for
} words[] = {{"on", 1, ANY},
             {"true", 1, ANY},
             {"yes", 1, ANY},
             {"off", 0, ANY},
             {"no", 0, ANY},
             {"false", 0, ANY},
             {"auto", KEEPER_AUTO, OPTION_KEEPER},
             {"abort", 1, OPTION_FOREIGN_FREE},
             {"abort", SIZED_FREE_ABORT, OPTION_SIZED_FREE},
             {"report", SIZED_FREE_REPORT, OPTION_SIZED_FREE}};

const char* option_name(enum option option) {
    return names[option];
}

static char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

// The rest of `text` if it begins with `begin`, ignoring case, else NULL.
static const char* after(const char* text, const char* begin) {
    while (*begin != '\0' && lower(*text) == *begin) {
        text++;
        begin++;
    }
    return *begin == '\0' ? text : NULL;
}

static const char* value_of(const char* entry, const char* name) {
    const char* end = after(entry, name);
    return end != NULL && *end == '=' ? end + 1 : NULL;
}

static unsigned unit_shift(const char* text) {
    char unit = lower(*text);
    unsigned shift = unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : unit == 't' ? 40 : 0;
    if (shift == 0) return 64;
    text = after(text + 1, "ib") != NULL  ? text + 3
           : after(text + 1, "b") != NULL ? text + 2
                                          : text + 1;
    return *text == '\0' ? shift : 64;
}

// "-1", "500", "64M", "2GiB". False: not a number.
static bool parse_number(const char* text, int64_t* value) {
    bool negative = *text == '-';
    int64_t number = 0;
    text += negative;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (number > (INT64_MAX - 9) / 10) return false;
        number = number * 10 + (*text - '0');
    }
    if (*text != '\0') {
        unsigned shift = unit_shift(text);
        if (shift == 64 || number > INT64_MAX >> shift) return false;
        number <<= shift;
    }
    *value = negative ? -number : number;
    return true;
}

static bool parse_value(enum option option, const char* text, int64_t* value) {
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        const char* end = after(text, words[i].word);
        if (end == NULL || *end != '\0') continue;
        if (words[i].option != ANY && words[i].option != option) continue;
        *value = words[i].value;
        return true;
    }
    return parse_number(text, value);
}

static void set_by(enum option option, int64_t value, enum source source) {
    if (atomic_get(&sources[option]) > source) return;
    atomic_set(&sources[option], source);
    atomic_set(&option_values[option], value);
}

void option_set(enum option option, int64_t value) {
    set_by(option, value, BY_CALL);
}

void option_set_default(enum option option, int64_t value) {
    set_by(option, value, BY_DEFAULT);
}

// False: the value is invalid.
static bool parse_as(enum option option, const char* text, enum source source) {
    int64_t value;
    if (!parse_value(option, text, &value)) return false;
    set_by(option, value, source);
    return true;
}

static bool parse_entry(const char* name, enum source source) {
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const char* text = names[i] != NULL ? value_of(name, names[i]) : NULL;
        if (text != NULL) return parse_as((enum option)i, text, source);
    }
    for (unsigned i = 0; source == BY_NAME && i < sizeof second_names / sizeof *second_names; i++) {
        const char* text = value_of(name, second_names[i].name);
        if (text != NULL) return parse_as(second_names[i].option, text, source);
    }
    return true;
}

void options_parse(char* const* environment, options_invalid_entry* invalid) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const char* entry = *environment;
        const char* name;
        bool valid = true;
        if (entry[0] != 'K' && entry[0] != 'M') continue;
        if ((name = after(entry, "keel_")) != NULL)
            valid = parse_entry(name, BY_NAME);
        else if ((name = after(entry, "mimalloc_")) != NULL)
            valid = parse_entry(name, BY_MIMALLOC_NAME);
        if (!valid) invalid(entry);
    }
}
