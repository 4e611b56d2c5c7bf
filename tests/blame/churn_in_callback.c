/* culprit: compare_names by churn
 * The comparison that qsort calls copies both names. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lower(char* text) {
    for (; *text != 0; text++) *text = (char)tolower(*text);
}

static int compare_names(const void* one, const void* other) {
    char* a = strdup(*(char* const*)one);
    char* b = strdup(*(char* const*)other);
    lower(a);
    lower(b);
    int result = strcmp(a, b);
    free(a);
    free(b);
    return result;
}

int main(void) {
    enum { COUNT = 1000 };
    char* names[COUNT];
    for (int i = 0; i < COUNT; i++) {
        names[i] = malloc(60);
        snprintf(names[i], 60, "Name %d", i * 7919 % COUNT);
    }
    qsort(names, COUNT, sizeof *names, compare_names);
    for (int i = 0; i < COUNT; i++) free(names[i]);
    return 0;
}
