/* Keel by its own names, beside a malloc that stays libc's. Ends with 1 if it is not so. */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>

/* Names that a program may well use; that Keel uses them inside must not matter. */
int counters = 1;
int heap_first(void) {
    return counters;
}

int main(void) {
    char* theirs = malloc(100);
    char* ours = kl_malloc(100);
    bool apart = !kl_contains(theirs) && kl_contains(ours) && heap_first() == 1;
    free(theirs);
    kl_free(ours);
    puts(apart ? "Keel is beside libc's malloc" : "malloc and Keel are not apart");
    return !apart;
}
