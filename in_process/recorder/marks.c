// Frames, marks and thread names, which the program reports.
#include "base/attributes.h"
#include "keel/recorder.h"
#include "thread.h"
#include <stddef.h>
#include <string.h>

KEEL_EXPORT void kl_record_frame_now(void) {
    if (recording()) record_checked(KL_RING_FRAME, ticks(), NULL, 0, 0);
}

static void text_record(enum kl_ring_op op, const char* text, size_t length) {
    uint64_t halves[2] = {0, 0};
    memcpy(halves, text, length);
    record_checked(op, ticks(), (const void*)halves[0], halves[1], 0);
}

KEEL_EXPORT void kl_record_mark_now(const char* text) {
    if (text == NULL || !recording()) return;
    size_t length = strnlen(text, KL_MARK_BYTES);
    for (; length > 16; length -= 16, text += 16) text_record(KL_RING_TEXT, text, 16);
    text_record(KL_RING_MARK, text, length);
}

#if !defined(_WIN32)
// A mark of the thread, with a text that lab/check recognises.
KEEL_EXPORT void kl_record_zone_now(const char* name, int begins) {
    if (name == NULL || !recording()) return;
    const char* kind = begins ? "keel zone begin: " : "keel zone end: ";
    char text[KL_MARK_BYTES + 1];
    size_t length = strlen(kind);
    memcpy(text, kind, length);
    size_t rest = strnlen(name, KL_MARK_BYTES - length);
    memcpy(text + length, name, rest);
    text[length + rest] = 0;
    kl_record_mark_now(text);
}
#endif

KEEL_EXPORT void kl_record_thread_name_now(const char* name) {
    if (name == NULL || !recording()) return;
    text_record(KL_RING_THREAD_NAME, name, strnlen(name, 15));
}
