/* culprit: append_point by bytes
 * An array grows by one element at a time. */
#include <stdlib.h>

struct points {
    double* values;
    size_t count;
};

static inline void append_point(struct points* points, double value) {
    points->values = realloc(points->values, (points->count + 1) * sizeof(double));
    points->values[points->count++] = value;
}

int main(void) {
    struct points points = {NULL, 0};
    for (int i = 0; i < 3000; i++) {
        append_point(&points, i);
        free(malloc(1000));
    }
    free(points.values);
    return 0;
}
