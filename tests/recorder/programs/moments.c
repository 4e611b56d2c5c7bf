/* moments: reports marks, frames and names to the loaded recorder, without linking a library. */
#include "common.h"

extern void kl_record_frame_now(void) __attribute__((weak));
extern void kl_record_mark_now(const char* text) __attribute__((weak));
extern void kl_record_thread_name_now(const char* name) __attribute__((weak));

static void* named(void* unused) {
    pthread_setname_np(pthread_self(), "by pthread");
    free(kept(malloc(1003)));
    return unused;
}

int main(void) {
    if (kl_record_frame_now == NULL) return 3;
    free(kept(malloc(1001)));
    kl_record_thread_name_now("the loader");
    char text[301] = "";
    for (int i = 0; i < 60; i++) strcat(text, "long ");
    kl_record_mark_now("level 1");
    kl_record_mark_now("a mark of exactly 32 characters!");
    kl_record_mark_now(text);
    kl_record_mark_now("");
    kl_record_mark_now(NULL);
    for (int i = 0; i < 3; i++) kl_record_frame_now();
    pthread_t id;
    pthread_create(&id, NULL, named, NULL);
    pthread_join(id, NULL);
    return 0;
}
