/* Uses Keel by its own names while malloc remains libc's. Exits with 1 if that is not the case. */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>

/* Keel has internal functions with these names; they must not collide with the program's. */
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
    puts(apart ? "Keel works beside libc's malloc" : "malloc and Keel are not separate");
    return !apart;
}
