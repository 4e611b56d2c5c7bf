/* culprit: sorted_copy by peak
 * The program needs most memory while it holds a sorted copy of its data. */
#include <stdlib.h>
#include <string.h>

static int compare(const void* one, const void* other) {
    return *(const int*)one - *(const int*)other;
}

__attribute__((noinline)) static int* sorted_copy(const int* data, size_t count) {
    int* copy = malloc(2 * count * sizeof *copy);
    memcpy(copy, data, count * sizeof *copy);
    qsort(copy, count, sizeof *copy, compare);
    return copy;
}

int main(void) {
    enum { COUNT = 100000 };
    int* data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++) data[i] = i * 7919 % COUNT;
    int* copy = sorted_copy(data, COUNT);
    int result = copy[0];
    free(copy);
    for (int i = 0; i < 1000; i++) free(malloc(50000));
    free(data);
    return result;
}
