// What the recorder of a program's own calls needs from the system. linux.c and windows.c implement
// it; the other files are the same on both systems, apart from session.c, which joins a session of
// `keel record` and exists on Linux only.
//
// Threads may call every function at any time, unless its comment says something else. None of them
// calls the program's malloc, except system_watch_thread of glibc.
#ifndef KEEL_RECORDER_SYSTEM_H
#define KEEL_RECORDER_SYSTEM_H

#include "journal/ring.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- Time and threads

// A clock in nanoseconds whose rate nobody adjusts.
uint64_t system_raw_ns(void);

// The best clock: that of the processor, if its rate is constant.
enum kl_clock system_clock(void);

void system_sleep_us(unsigned microseconds);
void system_yield(void);
uint32_t system_process(void);
uint64_t system_thread(void);

// The system's name of this thread; "" if it has none.
void system_thread_name(char name[static 16]);

// system_watch_thread makes this thread call `ended` with `value` when it ends; `ended` may watch
// the thread again, and is then called once more. system_watch_threads comes first, once.
void system_watch_threads(void (*ended)(void* value));
void system_watch_thread(void* value);

// `in_child` is called in a forked child, if there are any.
void system_on_fork(void (*in_child)(void));

// From now on these pages, which begin and end at system pages, are zero in a forked child.
void system_wipe_on_fork(void* pages, size_t bytes);

// Between the two the thread is not cancelled. The end restores errno (and Windows' last error).
struct system_state {
    int saved_errno;
    uint32_t saved;
};
struct system_state system_begin(void);
void system_end(struct system_state state);

// False: the process is ending, and all its other threads are gone, wherever they were.
bool system_has_threads(void);

// Gives memory to pages that will be used soon, or does nothing.
void system_touch(void* pages, size_t bytes);

// ---- Description of the process

// Fills in the process, the program and its arguments.
void system_describe(struct kl_spool* spool);

// Writes lines as in /proc/self/maps for the code of object files. Returns the length; lines that
// do not fit are omitted.
size_t system_maps(char* text, size_t bytes);

// ---- The two files of a recording (log.h). There is one pair at a time

struct piece {
    const void* bytes;
    size_t length;
};
enum { PIECES_MAX = 3 };

// Creates the file `path` and the file `path`.rings of this size, and maps the latter at `*rings`,
// with memory for the first bytes of it. Returns 0 or the errno; then a file may exist, and
// system_files_release is needed.
int system_files_create(const char* path, size_t bytes, size_t first_bytes, void** rings);

// Appends the pieces to the file; those of several threads do not mix. Returns 0 or the errno.
int system_files_append(const struct piece* pieces, int count);

// Reserves memory for a range of the rings, so that writing there cannot fail.
bool system_files_reserve(uint64_t offset, uint64_t bytes);

// Ends the use of both files, and removes those that are not kept. Other threads may be writing
// events to the rings from `first` to `end`, so these addresses stay mapped, as other memory.
enum system_kept { KEPT_NONE, KEPT_LOG, KEPT_BOTH };
void system_files_release(void* rings, uint64_t first, uint64_t end, enum system_kept kept);

#endif
