// What the user may choose, parsed once from the environment into a struct that is constant from
// then on.
#ifndef KEEL_BASE_OPTIONS_H
#define KEEL_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum keeper_choice {
    KEEPER_AUTO,   // once a second thread allocates
    KEEPER_ALWAYS, // from the first allocation after the constructors
    KEEPER_NEVER,
};

struct options {
    enum keeper_choice keeper; // KEEL_KEEPER=auto|on|off
    bool stats_at_exit;        // KEEL_STATS: print the report to stderr when the process ends
    // KEEL_FOREIGN_FREE=abort: free of another allocator's pointer ends the process.
    bool abort_on_foreign_free;
    // KEEL_PURGE_DELAY_MS: unused memory is given back after this long, 0 = at once.
    uint32_t purge_delay_ms;
};

// The choices in force. Defaults until options_parse has run; read-only afterwards.
extern struct options options;

// `environment` is a NULL-terminated list of NAME=VALUE, or NULL. Unknown or malformed values leave
// the default.
void options_parse(char* const* environment);

#endif
