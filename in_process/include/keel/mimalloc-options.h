/* The part of keel/mimalloc.h that is about options: include that one. */
#ifndef KEEL_MIMALLOC_OPTIONS_H
#define KEEL_MIMALLOC_OPTIONS_H

#include "keel/runtime.h"
#include <stdbool.h>

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the functions are C too */
#endif

typedef enum mi_option_e {
    mi_option_show_errors = kl_option_show_errors,
    mi_option_show_stats = kl_option_show_stats,
    mi_option_verbose = kl_option_verbose,
    mi_option_eager_commit = kl_option_eager_commit,
    mi_option_eager_region_commit = kl_option_eager_region_commit,
    mi_option_reset_decommits = kl_option_reset_decommits,
    mi_option_large_os_pages = kl_option_large_os_pages,
    mi_option_reserve_huge_os_pages = kl_option_reserve_huge_os_pages,
    mi_option_segment_cache = kl_option_segment_cache,
    mi_option_page_reset = kl_option_page_reset,
    mi_option_abandoned_page_reset = kl_option_abandoned_page_reset,
    mi_option_segment_reset = kl_option_segment_reset,
    mi_option_eager_commit_delay = kl_option_eager_commit_delay,
    mi_option_reset_delay = kl_option_reset_delay,
    mi_option_use_numa_nodes = kl_option_use_numa_nodes,
    mi_option_os_tag = kl_option_os_tag,
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
