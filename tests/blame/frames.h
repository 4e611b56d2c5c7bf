/* The end of a frame, if the program is recorded. */
#ifndef KEEL_TESTS_BLAME_FRAMES_H
#define KEEL_TESTS_BLAME_FRAMES_H

#ifdef __cplusplus
extern "C"
#endif
    __attribute__((weak)) void
    kl_record_frame_now(void);

static inline void end_frame(void) {
    if (kl_record_frame_now) kl_record_frame_now();
}

#endif
