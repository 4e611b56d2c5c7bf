// Reads .eh_frame for x86-64: the format of the "Linux Standard Base Core Specification", chapter
// "Exception Frames", with the instructions of DWARF's call frame information. Only the usual forms
// of tables are read. Everything else gives FRAME_UNKNOWN, and the caller uses the C library's
// unwinder.
#include "os/unwind_rules.h"

#include "base/attributes.h"
#include "os/process.h"
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// DWARF's numbers of registers.
enum { BP = 6, SP = 7, RETURN_ADDRESS = 16 };

// Encodings of pointers in the tables.
enum { PCREL_S4 = 0x1b, DATAREL_S4 = 0x3b, UDATA4 = 0x03, FORMAT_MASK = 0x0f };

enum { SAVED_STATES = 8 };

static const struct unwind_rule unknown = {.frame_kind = FRAME_UNKNOWN};
static const struct unwind_rule no_table = {.frame_kind = FRAME_NO_TABLE};

// A reader of one table entry. `at` never exceeds `end`; reading beyond the end sets `failed`.
struct cursor {
    const uint8_t* at;
    const uint8_t* end;
    bool failed;
};

static uint64_t read_bytes(struct cursor* cursor, size_t count) {
    uint64_t value = 0;
    if ((size_t)(cursor->end - cursor->at) < count) {
        cursor->failed = true;
        cursor->at = cursor->end;
        return 0;
    }
    memcpy(&value, cursor->at, count); // little-endian, like the machine
    cursor->at += count;
    return value;
}

static uint64_t read_uleb(struct cursor* cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint64_t byte = read_bytes(cursor, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return value;
    }
    cursor->failed = true;
    return 0;
}

static int64_t read_sleb(struct cursor* cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint64_t byte = read_bytes(cursor, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) != 0) continue;
        bool negative = (byte & 0x40) != 0;
        return (int64_t)(negative ? value | ~UINT64_C(0) << (shift + 7) : value);
    }
    cursor->failed = true;
    return 0;
}

static void skip(struct cursor* cursor, uint64_t count) {
    if ((uint64_t)(cursor->end - cursor->at) < count) {
        cursor->failed = true;
        count = 0;
    }
    cursor->at += count;
}

// Size of a pointer with this encoding; 0 if it has no fixed size.
static size_t encoded_size(uint64_t encoding) {
    switch (encoding & FORMAT_MASK) {
    case 0x00:
    case 0x04:
    case 0x0c:
        return 8;
    case 0x03:
    case 0x0b:
        return 4;
    case 0x02:
    case 0x0a:
        return 2;
    default:
        return 0;
    }
}

// The contents of an entry with this length field; they may follow it in other places of the table.
static struct cursor entry_at(const uint8_t* entry) {
    uint32_t length;
    memcpy(&length, entry, sizeof length);
    bool failed = length == 0 || length == UINT32_MAX; // the end of the table; 64-bit entries
    const uint8_t* contents = entry + sizeof length;
    return (struct cursor){contents, contents + (failed ? 0 : length), failed};
}

// What functions with the same conventions share (CIE).
struct common {
    uint64_t code_align;
    int64_t data_align;
    uint64_t pointer_encoding;
    bool has_augmentation; // entries of functions have a part to skip
    struct cursor instructions;
};

static bool common_read(const uint8_t* entry, struct common* common) {
    struct cursor cursor = entry_at(entry);
    if (read_bytes(&cursor, 4) != 0) return false; // not a CIE
    uint64_t version = read_bytes(&cursor, 1);
    const char* augmentation = (const char*)cursor.at;
    while (read_bytes(&cursor, 1) != 0) {
    }
    if (cursor.failed || (version != 1 && version != 3)) return false;
    common->code_align = read_uleb(&cursor);
    common->data_align = read_sleb(&cursor);
    uint64_t return_register = version == 1 ? read_bytes(&cursor, 1) : read_uleb(&cursor);
    common->pointer_encoding = 0;
    common->has_augmentation = augmentation[0] == 'z';
    if (!common->has_augmentation && augmentation[0] != 0) return false;
    if (common->has_augmentation) {
        uint64_t size = read_uleb(&cursor);
        struct cursor rest = cursor;
        skip(&cursor, size);
        for (const char* letter = augmentation + 1; *letter != 0; letter++) {
            if (*letter == 'R') {
                common->pointer_encoding = read_bytes(&rest, 1);
            } else if (*letter == 'L') {
                skip(&rest, 1);
            } else if (*letter == 'P') {
                size_t pointer = encoded_size(read_bytes(&rest, 1));
                if (pointer == 0) return false;
                skip(&rest, pointer);
            } else {
                return false; // 'S': the frame of a signal handler
            }
        }
        if (rest.failed) return false;
    }
    common->instructions = cursor;
    return !cursor.failed && return_register == RETURN_ADDRESS;
}

// The state of the rules while instructions are executed.
struct row {
    struct unwind_rule rule;
    uint64_t frame_register; // BP or SP, or another, which gives FRAME_UNKNOWN
    bool base_is_unknown;
    bool return_is_unknown;
    bool is_last;
};

struct machine {
    struct row row;
    struct row initial;
    struct row saved[SAVED_STATES];
    int saved_count;
    uintptr_t location;
    uintptr_t wanted;
    const struct common* common;
};

static void define_frame(struct machine* machine, uint64_t number, int64_t offset) {
    machine->row.frame_register = number;
    machine->row.rule.frame_kind = number == SP ? FRAME_FROM_SP : FRAME_FROM_BP;
    machine->row.rule.frame_offset = (int32_t)offset;
}

// The register is saved at CFA + offset.
static void saved_at_frame(struct machine* machine, uint64_t number, int64_t offset) {
    if (number == BP) {
        machine->row.rule.base_kind = BASE_AT_CFA;
        machine->row.rule.base_offset = (int32_t)offset;
        machine->row.base_is_unknown = false;
    }
    if (number == RETURN_ADDRESS) machine->row.return_is_unknown = offset != -8;
}

static void saved_elsewhere(struct machine* machine, uint64_t number) {
    if (number == BP) machine->row.base_is_unknown = true;
    if (number == RETURN_ADDRESS) machine->row.return_is_unknown = true;
}

static void undefined(struct machine* machine, uint64_t number) {
    if (number == RETURN_ADDRESS) machine->row.is_last = true;
    if (number == BP) machine->row.base_is_unknown = true;
}

static void same_value(struct machine* machine, uint64_t number) {
    if (number == BP) {
        machine->row.rule.base_kind = BASE_SAME;
        machine->row.base_is_unknown = false;
    }
    if (number == RETURN_ADDRESS) machine->row.return_is_unknown = true;
}

static void restore(struct machine* machine, uint64_t number) {
    if (number == BP) {
        machine->row.rule.base_kind = machine->initial.rule.base_kind;
        machine->row.rule.base_offset = machine->initial.rule.base_offset;
        machine->row.base_is_unknown = machine->initial.base_is_unknown;
    }
    if (number == RETURN_ADDRESS) {
        machine->row.return_is_unknown = machine->initial.return_is_unknown;
    }
}

// An expression that is "frame pointer + offset", followed by `tail` (the opcode of a dereference,
// or nothing). This is how functions that realign the stack are described.
static bool expression_of_base(struct cursor* cursor, uint8_t tail, int64_t* offset) {
    enum { BREG0 = 0x70 };
    uint64_t size = read_uleb(cursor);
    struct cursor expression = *cursor;
    skip(cursor, size);
    if (cursor->failed) return false;
    expression.end = cursor->at;
    if (read_bytes(&expression, 1) != BREG0 + BP) return false;
    *offset = read_sleb(&expression);
    if (tail != 0 && read_bytes(&expression, 1) != tail) return false;
    return !expression.failed && expression.at == expression.end;
}

static void frame_expression(struct machine* machine, struct cursor* cursor) {
    enum { DEREFERENCE = 0x06 };
    int64_t offset = 0;
    bool simple = expression_of_base(cursor, DEREFERENCE, &offset);
    machine->row.frame_register = BP;
    machine->row.rule.frame_kind = simple ? FRAME_AT_BP : FRAME_UNKNOWN;
    machine->row.rule.frame_offset = (int32_t)offset;
}

static void register_expression(struct machine* machine, struct cursor* cursor) {
    uint64_t number = read_uleb(cursor);
    int64_t offset = 0;
    bool simple = expression_of_base(cursor, 0, &offset);
    saved_elsewhere(machine, number);
    if (number == BP && simple) {
        machine->row.rule.base_kind = BASE_AT_BP;
        machine->row.rule.base_offset = (int32_t)offset;
        machine->row.base_is_unknown = false;
    }
}

static void save_row(struct machine* machine, struct cursor* cursor) {
    if (machine->saved_count == SAVED_STATES) {
        cursor->failed = true;
    } else {
        machine->saved[machine->saved_count++] = machine->row;
    }
}

static void restore_row(struct machine* machine, struct cursor* cursor) {
    if (machine->saved_count == 0) {
        cursor->failed = true;
    } else {
        machine->row = machine->saved[--machine->saved_count];
    }
}

// The instructions that define the CFA or save registers; those that move the location are in
// `execute`.
static void instruction(struct machine* machine, struct cursor* cursor, uint64_t opcode) {
    int64_t scale = machine->common->data_align;
    uint64_t number;
    switch (opcode) {
    case 0x00:
        break; // nop
    case 0x05: // offset_extended
        number = read_uleb(cursor);
        saved_at_frame(machine, number, (int64_t)read_uleb(cursor) * scale);
        break;
    case 0x06:
        restore(machine, read_uleb(cursor));
        break;
    case 0x07:
        undefined(machine, read_uleb(cursor));
        break;
    case 0x08:
        same_value(machine, read_uleb(cursor));
        break;
    case 0x09: // register
        saved_elsewhere(machine, read_uleb(cursor));
        read_uleb(cursor);
        break;
    case 0x0a:
        save_row(machine, cursor);
        break;
    case 0x0b:
        restore_row(machine, cursor);
        break;
    case 0x0c: // def_cfa
        number = read_uleb(cursor);
        define_frame(machine, number, (int64_t)read_uleb(cursor));
        break;
    case 0x0d: // def_cfa_register
        define_frame(machine, read_uleb(cursor), machine->row.rule.frame_offset);
        break;
    case 0x0e: // def_cfa_offset
        machine->row.rule.frame_offset = (int32_t)read_uleb(cursor);
        break;
    case 0x0f:
        frame_expression(machine, cursor);
        break;
    case 0x10:
        register_expression(machine, cursor);
        break;
    case 0x11: // offset_extended_sf
        number = read_uleb(cursor);
        saved_at_frame(machine, number, read_sleb(cursor) * scale);
        break;
    case 0x12: // def_cfa_sf
        number = read_uleb(cursor);
        define_frame(machine, number, read_sleb(cursor) * scale);
        break;
    case 0x13: // def_cfa_offset_sf
        machine->row.rule.frame_offset = (int32_t)(read_sleb(cursor) * scale);
        break;
    case 0x16: // val_expression
        saved_elsewhere(machine, read_uleb(cursor));
        skip(cursor, read_uleb(cursor));
        break;
    case 0x2e:
        read_uleb(cursor);
        break; // GNU_args_size
    default:
        cursor->failed = true;
    }
}

// Executes the instructions up to the wanted address. Returns false if one is not known.
static bool execute(struct machine* machine, struct cursor cursor) {
    enum { ADVANCE = 1, OFFSET = 2, RESTORE = 3 };
    while (!cursor.failed && cursor.at < cursor.end) {
        uint64_t byte = read_bytes(&cursor, 1);
        uint64_t low = byte & 0x3f;
        uint64_t distance = 0;
        switch (byte >> 6) {
        case ADVANCE:
            distance = low;
            break;
        case OFFSET: {
            int64_t offset = (int64_t)read_uleb(&cursor) * machine->common->data_align;
            saved_at_frame(machine, low, offset);
            continue;
        }
        case RESTORE:
            restore(machine, low);
            continue;
        default:
            if (low < 0x02 || low > 0x04) {
                instruction(machine, &cursor, low);
                continue;
            }
            distance = read_bytes(&cursor, (size_t)1 << (low - 2));
        }
        machine->location += distance * machine->common->code_align;
        if (machine->location > machine->wanted) return !cursor.failed;
    }
    return !cursor.failed;
}

static struct unwind_rule rule_of_row(const struct row* row) {
    if (row->is_last) return (struct unwind_rule){.frame_kind = FRAME_LAST};
    bool expressible = !row->base_is_unknown && !row->return_is_unknown &&
                       (row->frame_register == BP || row->frame_register == SP);
    return expressible ? row->rule : unknown;
}

// The rule at `address` of the function whose table entry (FDE) this is.
static struct unwind_rule rule_of_entry(const uint8_t* entry, uintptr_t begin, uintptr_t address) {
    struct cursor cursor = entry_at(entry);
    const uint8_t* reference = cursor.at;
    uint64_t distance = read_bytes(&cursor, 4);
    struct common common;
    if (cursor.failed || distance == 0 || !common_read(reference - distance, &common)) {
        return unknown;
    }
    size_t pointer = encoded_size(common.pointer_encoding);
    if (pointer == 0) return unknown;
    skip(&cursor, pointer);
    uint64_t length = read_bytes(&cursor, pointer);
    if (cursor.failed) return unknown;
    if (address - begin >= length) return no_table;
    if (common.has_augmentation) skip(&cursor, read_uleb(&cursor));
    struct machine machine = {.location = 0, .wanted = UINTPTR_MAX, .common = &common};
    if (!execute(&machine, common.instructions)) return unknown;
    machine.initial = machine.row;
    machine.location = begin;
    machine.wanted = address;
    if (!execute(&machine, cursor)) return unknown;
    return rule_of_row(&machine.row);
}

// The header of the tables (.eh_frame_hdr), followed by a sorted array of pairs: the begin of a
// function and its entry, both relative to the header.
struct table_header {
    uint8_t version;
    uint8_t table_encoding;
    uint8_t count_encoding;
    uint8_t pair_encoding;
    int32_t table;
    uint32_t count;
    int32_t pairs[][2];
};

// The pair of the last function that begins at or before the address.
static const int32_t* pair_find(const struct table_header* header, uintptr_t address) {
    intptr_t wanted = (intptr_t)(address - (uintptr_t)header);
    uint32_t first = 0, after = header->count;
    while (first < after) {
        uint32_t middle = first + (after - first) / 2;
        if (header->pairs[middle][0] <= wanted) {
            first = middle + 1;
        } else {
            after = middle;
        }
    }
    return first == 0 ? NULL : header->pairs[first - 1];
}

#if !defined(DLFO_STRUCT_HAS_EH_DBASE) // headers before those of glibc 2.35 lack it
struct dl_find_object {
    unsigned long long dlfo_flags;
    void* dlfo_map_start;
    void* dlfo_map_end;
    struct link_map* dlfo_link_map;
    void* dlfo_eh_frame;
    unsigned long long reserved[7];
};
#endif

// Found at run time: C libraries before glibc 2.35 do not have it, and would refuse to load a
// library that names it.
typedef int find_object(void* address, struct dl_find_object* found);
static find_object* library_find;

void unwind_rules_prepare(void) {
    *(void**)&library_find = os_symbol("_dl_find_object");
}

bool unwind_rules_exist(void) {
    return library_find != NULL;
}

struct unwind_rule unwind_rule_find(uintptr_t address) {
    struct dl_find_object found;
    // The call instruction ends at the return address, which may belong to the next function.
    uintptr_t call = address - 1;
    if (library_find == NULL) return unknown;
    if (library_find((void*)call, &found) != 0) return no_table;
    const struct table_header* header = found.dlfo_eh_frame;
    if (header == NULL || header->version != 1 || header->table_encoding != PCREL_S4 ||
        header->count_encoding != UDATA4 || header->pair_encoding != DATAREL_S4) {
        return unknown;
    }
    const int32_t* pair = pair_find(header, call);
    if (pair == NULL) return no_table;
    uintptr_t base = (uintptr_t)header;
    return rule_of_entry((const uint8_t*)base + pair[1], base + (uintptr_t)pair[0], call);
}

// --- Without _dl_find_object ---------------------------------------------------------------------

#if (KEEL_DEBUG && defined(__GLIBC__) && defined(__PIC__)) || !defined(__GLIBC__)
struct search {
    uintptr_t address;
    struct dl_find_object* found;
};

static int find_in_module(struct dl_phdr_info* module, size_t bytes, void* argument) {
    struct search* search = argument;
    bool contains = false;
    (void)bytes;
    search->found->dlfo_eh_frame = NULL;
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr)* part = &module->dlpi_phdr[i];
        uintptr_t start = module->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME) search->found->dlfo_eh_frame = (void*)start;
        if (part->p_type != PT_LOAD || search->address - start >= part->p_memsz) continue;
        contains = true;
        search->found->dlfo_map_start = (void*)start;
        search->found->dlfo_map_end = (void*)(start + part->p_memsz);
    }
    return contains && search->found->dlfo_eh_frame != NULL;
}

static int find_in_modules(void* address, struct dl_find_object* found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(find_in_module, &search) == 1 ? 0 : -1;
}
#endif

#if !defined(__GLIBC__)
void unwind_rules_search(void) {
    if (library_find == NULL) library_find = find_in_modules;
}
#endif

#if KEEL_DEBUG && defined(__GLIBC__) && defined(__PIC__)
// For the unwinder of libgcc that the debug flavour contains.
KEEL_HIDDEN int _dl_find_object(void* address, struct dl_find_object* found);
int _dl_find_object(void* address, struct dl_find_object* found) {
    return library_find != NULL ? library_find(address, found) : find_in_modules(address, found);
}
#endif
