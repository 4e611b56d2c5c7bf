#include "os/confined.h"
#include "os/file.h"
#include <string.h>

// True if `line` is `name`, followed by a blank and another number than 0.
static bool is_set(const char* line, const char* name) {
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && line[length] == '\t' && line[length + 1] != '0';
}

static void take_line(struct os_status* status, const char* line) {
    if (is_set(line, "NoNewPrivs:") || is_set(line, "Seccomp:")) status->filtered = true;
    if (strncmp(line, "THP_enabled:\t0", 14) == 0) status->huge_pages_denied = true;
}

// Piece by piece: the file has no greatest length, and stacks may be small. Beginnings of lines
// suffice.
void os_status_read(struct os_status* status) {
    char piece[512], line[32];
    size_t length = 0, at = 0;
    bool complete = false;
    *status = (struct os_status){false, false};
    int file = os_file_open("/proc/self/status");
    if (file >= 0) {
        while ((length = os_file_read_open(file, piece, sizeof piece)) > 0) {
            for (size_t i = 0; i < length; i++) {
                if (at < sizeof line - 1 && piece[i] != '\n') line[at++] = piece[i];
                if (piece[i] != '\n') continue;
                line[at] = '\0';
                at = 0;
                complete = true;
                take_line(status, line);
            }
        }
        os_file_close(file);
    }
    status->filtered |= !complete;
}

bool os_may_look(void) {
    uint32_t known = atomic_get(&os_confinement);
    if (known == OS_UNKNOWN) {
        struct os_status status;
        os_status_read(&status);
        uint32_t found = status.filtered ? OS_INHERITED : OS_FREE;
        if (atomic_try_state(&os_confinement, &known, found)) known = found;
    }
    return known == OS_FREE;
}
