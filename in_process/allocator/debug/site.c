#include "allocator/debug/site.h"
#include "allocator/guarded/call_walk.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/format.h"
#include "os/stack.h"
#include "os/symbol.h"
#include <string.h>

// --- The site ------------------------------------------------------------------------------------

static struct {
    bool is_set;
    struct os_name file;     // length 0: none
    struct os_name function; // length 0: none; then the range counts
    uintptr_t from;
    uintptr_t end;
} site;

// Reads "0x..." from the front of the text.
static bool take_hex(struct os_name* text, uintptr_t* value) {
    size_t digits = 0;
    *value = 0;
    if (text->length < 3 || memcmp(text->text, "0x", 2) != 0) return false;
    for (text->text += 2, text->length -= 2; text->length > 0; text->text++, text->length--) {
        const char* hex = "0123456789abcdef";
        const char* digit = memchr(hex, text->text[0] | 0x20, 16);
        if (digit == NULL || ++digits > 2 * sizeof *value) break;
        *value = *value * 16 + (uintptr_t)(digit - hex);
    }
    return digits > 0 && digits <= 2 * sizeof *value;
}

// "0xFROM-0xTO", or "0xAT" for one address in a file.
static bool parse_range(struct os_name text, bool may_be_one) {
    if (!take_hex(&text, &site.from)) return false;
    site.end = site.from + 1;
    if (text.length == 0) return may_be_one;
    if (text.text[0] != '-') return false;
    text.text++;
    text.length--;
    return take_hex(&text, &site.end) && text.length == 0 && site.end > site.from;
}

bool site_parse(const char* text, size_t length) {
    const char* plus = text_last(text, '+', length);
    memset(&site, 0, sizeof site);
    site.is_set = length > 0;
    if (plus != NULL) {
        site.file = (struct os_name){text, (size_t)(plus - text), false};
        size_t rest = length - site.file.length - 1;
        return site.file.length > 0 && parse_range((struct os_name){plus + 1, rest, false}, true);
    }
    if (length >= 2 && memcmp(text, "0x", 2) == 0)
        return parse_range((struct os_name){text, length, false}, false);
    bool is_prefix = length > 1 && text[length - 1] == '*';
    site.function = (struct os_name){text, length - (is_prefix ? 1 : 0), is_prefix};
    return length > 0;
}

// --- Return addresses ----------------------------------------------------------------------------

static bool is_file(const struct os_module* module) {
    const struct os_name file = site.file;
    if (module->path_length < file.length) return false;
    size_t before = module->path_length - file.length;
    if (memcmp(module->path + before, file.text, file.length) != 0) return false;
    return before == 0 || (module->path[before - 1] == '/' && file.text[0] != '/');
}

// As reports do, finds the call by the address before the one that it returns to.
static bool look_up(uintptr_t address) {
    struct os_maps maps;
    struct os_module module;
    bool found = false;
    if (!os_maps_read(&maps)) return false;
    if (os_maps_find(&maps, address - 1, &module)) {
        bool in_range = module.offset >= site.from && module.offset < site.end;
        found = site.function.length > 0 ? os_function_is(&module, site.function)
                                         : is_file(&module) && in_range;
    }
    os_maps_free(&maps);
    return found;
}

// What was looked up: addresses shifted by one bit, and whether they match. An address whose place
// is taken by another is looked up again.
#define SEEN 16384u
static atomic_word seen[SEEN];

static bool matches(uintptr_t address) {
    if (site.file.length == 0 && site.function.length == 0)
        return address >= site.from && address < site.end;
    atomic_word* place = &seen[(size_t)(bit_spread(address) >> 40) % SEEN];
    uintptr_t entry = atomic_get(place);
    if (entry >> 1 != address) {
        entry = address << 1 | (look_up(address) ? 1 : 0);
        atomic_set(place, entry);
    }
    return (entry & 1) != 0;
}

KEEL_NOINLINE bool site_excludes_caller(void) {
    struct walked walked;
    if (!site.is_set) return false;
    uintptr_t place = (uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t);
    call_walk(&walked, WALK_FRAMES_MAX, (uintptr_t)__builtin_return_address(0), place);
    for (uint32_t i = 0; i < walked.depth; i++) {
        if (matches(walked.addresses[i])) return false;
    }
    return true;
}
