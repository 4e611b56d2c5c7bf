#include "redirect.h"

#include "objects.h"
#include <string.h>

struct entries {
    const struct redirect* entries;
    size_t count;
};

static const struct redirect* entry_find(const struct entries* all, const char* name) {
    size_t low = 0;
    size_t high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, all->entries[middle].name);
        if (order == 0) return &all->entries[middle];
        if (order < 0) high = middle;
        if (order > 0) low = middle + 1;
    }
    return NULL;
}

static int object_replace(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct object object;
    struct slot slot = {0};
    if (!object_read(&object, info) || object_is_ours(&object)) return 0;
    while (object_next_slot(&object, &slot)) {
        // An object file that defines the function keeps its own calls.
        if (slot.symbol->st_shndx != SHN_UNDEF) continue;
        const struct redirect* entry = entry_find(data, slot.name);
        if (entry != NULL && entry->ours != 0) object_set_slot(&object, &slot, entry->ours);
    }
    object_close(&slot);
    return 0;
}

void redirect_apply(const struct redirect* entries, size_t count) {
    struct entries all = {entries, count};
    dl_iterate_phdr(object_replace, &all);
}
