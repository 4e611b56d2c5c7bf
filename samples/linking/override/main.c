/* A file whose only link to Keel is the header that the Makefile includes before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef KEEL_OVERRIDE_H
#error "the Makefile must include keel/keel-override.h before this"
#endif

int main(void) {
    char* block = malloc(100);
    char* text = strdup("text");
    int well = kl_contains(block) && kl_contains(text);
    free(block);
    free(text);
    puts(well ? "malloc is Keel's here" : "malloc is not Keel's here");
    return !well;
}
