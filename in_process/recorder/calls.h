// Calls that may make a thread wait: of locks, files and sleeps. libkeel_calls.so, which `keel
// check` preloads beside the recorder where it is asked to, replaces the functions and reports the
// calls here. Without that library these functions are not called.
#ifndef KEEL_RECORDER_CALLS_H
#define KEEL_RECORDER_CALLS_H

#include "base/attributes.h"
#include <stdint.h>

// Before the call. Returns the time, or 0 if the call is not recorded: the recorder's own calls are
// not. Preserves errno.
KEEL_EXPORT uint64_t kl_record_call_begin(const void* caller);

// After the call. `name` has at most 16 characters, the first of which is the kind: that of enum
// kl_call_kind in journal/ring.h. Preserves errno.
KEEL_EXPORT void kl_record_call_end(const char* name, uint64_t began, const void* caller);

#endif
