/* The options of keel/mimalloc.h. Include that header, not this one. */
#ifndef KEEL_MIMALLOC_OPTIONS_H
#define KEEL_MIMALLOC_OPTIONS_H

#include "keel/runtime.h"
#include <stdbool.h>

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the functions are also C */
#endif

/* The options that are defined below by a plain number have no effect in Keel. Keel stores their
 * values but does not use them. */
typedef enum mi_option_e {
    mi_option_show_errors = kl_option_show_errors,
    mi_option_show_stats = kl_option_show_stats,
    mi_option_verbose = kl_option_verbose,
    mi_option_eager_commit = 3,        /* memory is committed when it is touched */
    mi_option_eager_region_commit = 4, /* the same */
    mi_option_reset_decommits = 5,     /* unused memory is always returned */
    mi_option_large_os_pages = kl_option_large_os_pages,
    mi_option_reserve_huge_os_pages = kl_option_reserve_huge_os_pages,
    mi_option_segment_cache = 8, /* unused memory is kept for mi_option_reset_delay */
    mi_option_page_reset = 9,
    mi_option_abandoned_page_reset = 10, /* heaps of ended threads are collected as needed */
    mi_option_segment_reset = 11,
    mi_option_eager_commit_delay = 12,
    mi_option_reset_delay = kl_option_reset_delay,
    mi_option_use_numa_nodes = kl_option_use_numa_nodes,
    mi_option_os_tag = 15, /* for macOS */
    mi_option_max_errors = kl_option_max_errors,
    _mi_option_last
} mi_option_t;

static inline bool mi_option_is_enabled(mi_option_t option) KEEL_NOEXCEPT {
    return kl_option_is_enabled((kl_option_t)option);
}
static inline void mi_option_enable(mi_option_t option) KEEL_NOEXCEPT {
    kl_option_enable((kl_option_t)option);
}
static inline void mi_option_disable(mi_option_t option) KEEL_NOEXCEPT {
    kl_option_disable((kl_option_t)option);
}
static inline void mi_option_set_enabled(mi_option_t option, bool enable) KEEL_NOEXCEPT {
    kl_option_set_enabled((kl_option_t)option, enable);
}
static inline void mi_option_set_enabled_default(mi_option_t option, bool enable) KEEL_NOEXCEPT {
    kl_option_set_enabled_default((kl_option_t)option, enable);
}
static inline long mi_option_get(mi_option_t option) KEEL_NOEXCEPT {
    return kl_option_get((kl_option_t)option);
}
static inline void mi_option_set(mi_option_t option, long value) KEEL_NOEXCEPT {
    kl_option_set((kl_option_t)option, value);
}
static inline void mi_option_set_default(mi_option_t option, long value) KEEL_NOEXCEPT {
    kl_option_set_default((kl_option_t)option, value);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
