// For a program whose argument names one of its modes.
#pragma once

#include <stdio.h>
#include <string.h>

struct mode {
    const char* name;
    void (*run)(void);
};

// Returns the exit status: 2 if there is no such mode.
static inline int mode_run(const struct mode* modes, size_t modes_count, int count,
                           char** arguments) {
    for (size_t i = 0; count == 2 && i < modes_count; i++) {
        if (strcmp(modes[i].name, arguments[1]) != 0) continue;
        modes[i].run();
        return 0;
    }
    fprintf(stderr, "%s: no such mode\n", arguments[0]);
    return 2;
}
