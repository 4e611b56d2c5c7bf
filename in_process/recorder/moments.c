/* What the program says of itself: frames, named moments, names of threads. */
#include <stddef.h>
#include <string.h>

#include "keel/recorder.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void kl_record_frame_now(void) {
    if (recording()) tell(KL_RING_FRAME, ticks(), NULL, 0, 0);
}

static void record_text(enum kl_ring_op op, const char* text, size_t length) {
    uint64_t halves[2] = {0, 0};
    memcpy(halves, text, length);
    tell(op, ticks(), (const void*)halves[0], halves[1], 0);
}

EXPORT void kl_record_mark_now(const char* text) {
    if (text == NULL || !recording()) return;
    size_t length = strnlen(text, KL_MARK_BYTES);
    for (; length > 16; length -= 16, text += 16) record_text(KL_RING_TEXT, text, 16);
    record_text(KL_RING_MARK, text, length);
}

EXPORT void kl_record_thread_name_now(const char* name) {
    if (name == NULL || !recording()) return;
    record_text(KL_RING_THREAD_NAME, name, strnlen(name, 15));
}
