#include "allocator/debug/settings.h"
#include "allocator/debug/site.h"
#include "base/format.h"
#include <string.h>

#define STACK_MOST 32
#define MILLION 1000000

int64_t setting_values[SETTING_COUNT] = {
    [SETTING_QUARANTINE] = 8 << 20, [SETTING_FILL] = 64 << 10,      [SETTING_STACK] = 12,
    [SETTING_CHECK] = 512,          [SETTING_CHECK_BLOCKS] = 16,    [SETTING_CHECK_AT_EXIT] = 1,
    [SETTING_MISMATCH] = 1,         [SETTING_FAIL_MAX] = INT64_MAX,
};
bool settings_fail;

enum kind { NUMBER, BYTES, SWITCH, FRACTION, SITE };

static const struct {
    const char* name;
    enum kind kind;
    int64_t most;
    const char* help;
} settings[SETTING_COUNT] = {
    [SETTING_QUARANTINE] = {"quarantine", BYTES, INT64_MAX,
                            "freed memory that is kept, to find later writes to it"},
    [SETTING_FILL] = {"fill", BYTES, INT64_MAX,
                      "bytes of each new block that are filled with 0xAC"},
    [SETTING_STACK] = {"stack", NUMBER, STACK_MOST, "frames of each call stack; 0: none"},
    [SETTING_CHECK] = {"check", NUMBER, INT64_MAX,
                       "allocations between two checks of some blocks; 0: no checks"},
    [SETTING_CHECK_BLOCKS] = {"check_blocks", NUMBER, INT64_MAX,
                              "blocks that such a check verifies; 0: all blocks"},
    [SETTING_CHECK_AT_EXIT] = {"check_at_exit", SWITCH, 1, "verify all blocks at the end"},
    [SETTING_LEAKS] = {"leaks", SWITCH, 1, "list the blocks that are not freed at the end"},
    [SETTING_MISMATCH] = {"mismatch", NUMBER, 2,
                          "1: report the first block of malloc, new or new[] that another's "
                          "function frees; 2: and end the process"},
    [SETTING_HELP] = {"help", SWITCH, 1, "print this list"},
    [SETTING_FAIL_PROBABILITY] = {"probability", FRACTION, MILLION,
                                  "fail this share of the allocations, from 0 to 1"},
    [SETTING_FAIL_EVERY] = {"every", NUMBER, INT64_MAX, "fail each allocation of this number"},
    [SETTING_FAIL_AFTER] = {"after", NUMBER, INT64_MAX, "fail none of this many first allocations"},
    [SETTING_FAIL_COUNT] = {"count", NUMBER, INT64_MAX, "fail no more than this many; 0: no limit"},
    [SETTING_FAIL_MIN] = {"min", BYTES, INT64_MAX, "fail no allocation of fewer bytes"},
    [SETTING_FAIL_MAX] = {"max", BYTES, INT64_MAX, "fail no allocation of more bytes"},
    [SETTING_FAIL_SEED] = {"seed", NUMBER, INT64_MAX, "of the random choice"},
    [SETTING_FAIL_SITE] = {"site", SITE, 1,
                           "fail only in this function, at FILE+0xOFFSET or in 0xFROM-0xTO"},
};

// --- Values --------------------------------------------------------------------------------------

struct word {
    const char* text;
    size_t length;
};

static bool word_is(struct word word, const char* text) {
    return strlen(text) == word.length && memcmp(word.text, text, word.length) == 0;
}

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

// Reads digits from the front of the word. False: there are none, or too many.
static bool take_digits(struct word* word, int64_t* value) {
    size_t count = 0;
    *value = 0;
    while (count < word->length && count < 18 && is_digit(word->text[count]))
        *value = *value * 10 + (word->text[count++] - '0');
    word->text += count;
    word->length -= count;
    return count > 0 && (word->length == 0 || !is_digit(word->text[0]));
}

static bool parse_bytes(struct word word, int64_t* value) {
    if (!take_digits(&word, value)) return false;
    if (word.length == 0) return true;
    const char* units = "KMG";
    const char* unit = word.length == 1 ? strchr(units, word.text[0]) : NULL;
    if (unit == NULL || *value > INT64_MAX >> 30) return false;
    *value <<= 10 * (unit - units + 1);
    return true;
}

// "0.25", ".25" or "1", as millionths.
static bool parse_fraction(struct word word, int64_t* value) {
    int64_t whole = 0, part = 0;
    if (word.length == 0) return false;
    if (word.text[0] != '.' && !take_digits(&word, &whole)) return false;
    if (whole > 1) return false;
    if (word.length > 0) {
        if (word.text[0] != '.') return false;
        size_t digits = --word.length;
        word.text++;
        if (digits > 6 || !take_digits(&word, &part) || word.length > 0) return false;
        for (; digits < 6; digits++) part *= 10;
    }
    *value = whole * MILLION + part;
    return true;
}

static bool parse_switch(struct word word, int64_t* value) {
    *value = word.length == 0 || word_is(word, "1") || word_is(word, "on");
    return *value == 1 || word_is(word, "0") || word_is(word, "off");
}

static bool parse_value(enum kind kind, struct word word, int64_t* value) {
    switch (kind) {
    case BYTES:
        return parse_bytes(word, value);
    case FRACTION:
        return parse_fraction(word, value);
    case SWITCH:
        return parse_switch(word, value);
    case SITE:
        *value = 1;
        return site_parse(word.text, word.length);
    case NUMBER:
    default:
        return take_digits(&word, value) && word.length == 0;
    }
}

// --- Variables -----------------------------------------------------------------------------------

struct variable {
    const char* name; // with its equals sign
    unsigned first;   // its settings
    unsigned end;
};
static const struct variable debug_variable = {"KEEL_DEBUG=", 0, SETTING_FAIL_PROBABILITY};
static const struct variable fail_variable = {"KEEL_FAIL=", SETTING_FAIL_PROBABILITY,
                                              SETTING_COUNT};

// "NAME", "NAME=VALUE" or "NAME:VALUE".
static bool parse_part(const struct variable* variable, struct word part) {
    const char* equals = memchr(part.text, '=', part.length);
    if (equals == NULL) equals = memchr(part.text, ':', part.length);
    struct word name = part, word = {part.text, 0};
    if (equals != NULL) {
        name.length = (size_t)(equals - part.text);
        word = (struct word){equals + 1, part.length - name.length - 1};
    }
    for (unsigned i = variable->first; i < variable->end; i++) {
        int64_t value;
        if (!word_is(name, settings[i].name)) continue;
        if (!parse_value(settings[i].kind, word, &value) || value > settings[i].most) return false;
        setting_values[i] = value;
        return true;
    }
    return false;
}

static void warn_of(const struct variable* variable, struct word part, settings_output* output) {
    char line[160];
    struct text text;
    text_begin(&text, line, sizeof line);
    text_string(&text, "keel: ");
    text_string(&text, variable->name);
    for (size_t i = 0; i < part.length && i < 64; i++) {
        const char letter[2] = {part.text[i], '\0'};
        text_string(&text, letter);
    }
    text_string(&text, ": not valid, ignored; KEEL_DEBUG=help lists what is\n");
    output(line);
}

// False: the list has an invalid part, or none.
static bool parse_variable(const struct variable* variable, const char* list,
                           settings_output* output) {
    bool valid = *list != '\0';
    while (*list != '\0') {
        struct word part = {list, strcspn(list, ",")};
        if (part.length > 0 && !parse_part(variable, part)) {
            warn_of(variable, part, output);
            valid = false;
        }
        list += part.length + (list[part.length] == ',');
    }
    return valid;
}

static void text_value(struct text* text, enum kind kind, int64_t value) {
    if (value == INT64_MAX)
        text_string(text, "no limit");
    else if (kind == SITE)
        text_string(text, value == 0 ? "any" : "set");
    else if (kind == BYTES && value >= 1024)
        text_bytes(text, (uint64_t)value);
    else if (kind == FRACTION && value > 0) {
        text_decimal(text, (uint64_t)value);
        text_string(text, " millionths");
    } else
        text_decimal(text, (uint64_t)value);
}

static void help_of(const struct variable* variable, const char* title, settings_output* output) {
    output(title);
    for (unsigned i = variable->first; i < variable->end; i++) {
        char line[160];
        struct text text;
        text_begin(&text, line, sizeof line);
        text_string(&text, "  ");
        text_string(&text, settings[i].name);
        text_pad(&text, 0, 16);
        text_string(&text, " ");
        text_string(&text, settings[i].help);
        text_string(&text, " (now ");
        text_value(&text, settings[i].kind, setting_values[i]);
        text_string(&text, ")\n");
        output(line);
    }
}

void settings_read(char* const* environment, settings_output* output) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const struct variable* each[] = {&debug_variable, &fail_variable};
        for (unsigned i = 0; i < 2; i++) {
            size_t length = strlen(each[i]->name);
            if (strncmp(*environment, each[i]->name, length) != 0) continue;
            bool valid = parse_variable(each[i], *environment + length, output);
            if (each[i] == &fail_variable) settings_fail = valid;
        }
    }
    if (setting(SETTING_HELP) == 0) return;
    help_of(&debug_variable, "keel: KEEL_DEBUG=NAME=VALUE,... of the debug flavour\n", output);
    help_of(&fail_variable, "keel: KEEL_FAIL=NAME=VALUE,... makes allocations fail\n", output);
    output("keel: KEEL_SIZED_FREE=abort, report or off: frees with a wrong size\n"
           "keel: KEEL_FOREIGN_FREE=abort or off: frees of blocks of another allocator\n");
}
