// The settings of the debug flavour: KEEL_DEBUG and KEEL_FAIL in the environment.
//
// Each is a list of NAME=VALUE with commas between them. They are read once, at process start.
// Until then the defaults are in force.
#ifndef KEEL_ALLOCATOR_DEBUG_SETTINGS_H
#define KEEL_ALLOCATOR_DEBUG_SETTINGS_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stdint.h>

enum setting {
    // KEEL_DEBUG
    SETTING_QUARANTINE,    // bytes of freed blocks that are kept
    SETTING_FILL,          // bytes of each new block that are filled
    SETTING_STACK,         // frames of each call stack
    SETTING_CHECK,         // allocations from one partial check to the next; 0: none
    SETTING_CHECK_BLOCKS,  // blocks that such a check verifies; 0: all
    SETTING_CHECK_AT_EXIT, // 1: all blocks are verified when the process ends
    SETTING_LEAKS,         // 1: live blocks are listed when the process ends
    SETTING_MISMATCH,      // 1: a free by a function for other blocks is a fault
    SETTING_HELP,          // 1: the settings are listed when the process starts
    // KEEL_FAIL
    SETTING_FAIL_PROBABILITY, // in millionths
    SETTING_FAIL_EVERY,
    SETTING_FAIL_AFTER,
    SETTING_FAIL_COUNT,
    SETTING_FAIL_MIN,
    SETTING_FAIL_MAX,
    SETTING_FAIL_SEED,
    SETTING_FAIL_SITE, // 1: site.h has one
    SETTING_COUNT
};

extern int64_t setting_values[SETTING_COUNT];

KEEL_INLINE uint64_t setting(enum setting which) {
    return (uint64_t)setting_values[which];
}

// True if KEEL_FAIL is set, and all of it is valid.
extern bool settings_fail;

typedef void settings_output(const char* text);

// Reads both variables. Writes a warning for each part that is not valid, and the list of all
// settings if KEEL_DEBUG has `help`.
void settings_read(char* const* environment, settings_output* output);

#endif
