/* A program that Keel is compiled with. With KEEL_OVERRIDE its malloc is to be Keel's, else libc's. */
#include "keel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef KEEL_OVERRIDE
#define KEEL_OVERRIDE 0
#endif

/* Keel has such functions inside; its own are not these. */
int heap_first(void) {
    return 7;
}
int page_begin(void) {
    return heap_first();
}

int main(void) {
    char* block = malloc(100);
    char* text = strdup("from libc");
    char* ours = kl_malloc(100);
    int everything = kl_contains(block) && kl_contains(text);
    int nothing = !kl_contains(block) && !kl_contains(text);
    int well = kl_contains(ours) && (KEEL_OVERRIDE ? everything : nothing) && page_begin() == 7;
    kl_free(ours);
    free(text);
    free(block);
    puts(well ? "memory is where it should be" : "memory is not where it should be");
    return !well;
}
