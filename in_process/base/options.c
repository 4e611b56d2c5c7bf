#include "base/options.h"

atomic_signed option_values[OPTION_COUNT] = {
    [OPTION_EAGER_COMMIT] = 1, [OPTION_EAGER_REGION_COMMIT] = 0, [OPTION_RESET_DELAY] = 500,
    [OPTION_OS_TAG] = 100,     [OPTION_MAX_ERRORS] = 16,         [OPTION_KEEPER] = KEEPER_AUTO,
};

// Who has set it last; who comes lower in this list does not override.
enum source { BY_DEFAULT, BY_OTHERS_NAME, BY_NAME, BY_CALL };
static atomic_state sources[OPTION_COUNT];

static const char* const names[OPTION_COUNT] = {
    "show_errors",
    "show_stats",
    "verbose",
    "eager_commit",
    "eager_region_commit",
    "reset_decommits",
    "large_os_pages",
    "reserve_huge_os_pages",
    "segment_cache",
    "page_reset",
    "abandoned_page_reset",
    "segment_reset",
    "eager_commit_delay",
    "reset_delay",
    "use_numa_nodes",
    "os_tag",
    "max_errors",
    "keeper",
    "foreign_free",
    "limit",
};

// Keel's own names for options that have another one too.
static const struct {
    const char* name;
    enum option option;
} other_names[] = {{"stats", OPTION_SHOW_STATS}, {"purge_delay_ms", OPTION_RESET_DELAY}};

static const struct {
    const char* word;
    int64_t value;
} words[] = {{"on", 1}, {"true", 1},  {"yes", 1}, {"abort", 1},         {"off", 0},
             {"no", 0}, {"false", 0}, {"", 1},    {"auto", KEEPER_AUTO}};

const char* option_name(enum option option) {
    return names[option];
}

static char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

// What follows if `text` begins with `begin`, in whatever case, else NULL.
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

// "-1", "500", "64M", "2GiB". False: no number.
static bool parse_number(const char* text, int64_t* value) {
    bool negative = *text == '-';
    int64_t number = 0;
    text += negative;
    if (*text == '\0') return false;
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

static bool parse_value(const char* text, int64_t* value) {
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        const char* end = after(text, words[i].word);
        if (end == NULL || *end != '\0') continue;
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

// False: the value is none.
static bool parse_as(enum option option, const char* text, enum source source) {
    int64_t value;
    if (!parse_value(text, &value)) return false;
    set_by(option, value, source);
    return true;
}

static bool parse_entry(const char* name, enum source source) {
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const char* text = value_of(name, names[i]);
        if (text != NULL) return parse_as((enum option)i, text, source);
    }
    for (unsigned i = 0; source == BY_NAME && i < sizeof other_names / sizeof *other_names; i++) {
        const char* text = value_of(name, other_names[i].name);
        if (text != NULL) return parse_as(other_names[i].option, text, source);
    }
    return true;
}

void options_parse(char* const* environment, options_refuser* refused) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const char* entry = *environment;
        const char* name;
        bool well = true;
        if (entry[0] != 'K' && entry[0] != 'M') continue;
        if ((name = after(entry, "keel_")) != NULL)
            well = parse_entry(name, BY_NAME);
        else if ((name = after(entry, "mimalloc_")) != NULL)
            well = parse_entry(name, BY_OTHERS_NAME);
        if (!well) refused(entry);
    }
}
