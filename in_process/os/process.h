// The process and its machine: clock, environment, figures, output.
#ifndef KEEL_OS_PROCESS_H
#define KEEL_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Milliseconds of a clock that never goes back; about 5 ms coarse, no system call.
uint64_t os_clock_ms(void);

// The number of the calling process. A system call.
uint32_t os_process_id(void);

// Marks the process, so that a copy of it is recognised which was made without the C library's
// fork: by the system call clone, or by _Fork. Handlers of fork do not run then.
void os_process_mark(void);
void os_process_unmark(void);
// True in such a copy, until os_process_unmark. Always false before Linux 4.14, which cannot mark.
bool os_process_is_copy(void);

// Records the calling process as the one that the memory belongs to.
void os_process_record(void);
// True in another process: in a child that uses the memory of this one, as that of vfork does, and
// in a copy that fork did not make. A system call.
bool os_process_is_guest(void);

// NAME=VALUE list of the process, or NULL when it must not be trusted (set-user-id programs).
char* const* os_environment(void);

// A random number that another process cannot guess. If the system provides no random numbers, it
// only differs from run to run.
uint64_t os_random(void);

void os_write_error(const char* text, size_t length);

// Writes the text to stderr and aborts.
void os_abort(const char* text, size_t length);

// What the program's references to this name denote, or NULL.
void* os_symbol(const char* name);
// The function that the program's calls by this name reach, or NULL: also one that is defined only
// in a version of the C library that programs ask for, or that is chosen at load time (IFUNC). Only
// after the loader has relocated all objects.
void* os_function(const char* name);
// The next definition of a function after the caller's library in the order of look-up, or NULL.
void* os_next_symbol(const char* name);

// Writes the file's absolute name, without symbolic links, to `resolved`, which has room for
// PATH_MAX characters, and returns it. NULL: there is no such file; sets errno.
char* os_real_path(const char* path, char* resolved);

struct os_usage {
    uint64_t user_ms;
    uint64_t system_ms;
    uint64_t rss_bytes;
    uint64_t rss_peak_bytes;
    uint64_t major_faults;
    uint64_t minor_faults;
};
void os_usage(struct os_usage* usage);

#endif
