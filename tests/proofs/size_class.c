// Every size: its class is large enough and is the smallest such class; the internal fragmentation
// is within its bound; no index is out of bounds and no operation overflows.
#include "allocator/page/size_class.c"
#include "proof.h"

// The sizes of one class are an interval, so one call covers all of them.
static void prove_classes(void) {
    size_t least = 1;
    //@ loop unroll 81;
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        size_t most = size_class_bytes[c];
        if (most <= SMALL_BYTES_MAX) {
            size_t size = any_size(least, most);
            unsigned found = size_class_of_small(size);
            //@ assert found == c;
        } else {
            size_t size = any_size(least, most);
            unsigned found = size_class_of(size);
            //@ assert found == c;
        }
        // The waste of the smallest size of the class: at most 12.5 % of it above 128 bytes.
        //@ assert most <= 128 || 8 * (most - least) <= least;
        //@ assert most <= 8 || most % 16 == 0;
        least = most + 1;
    }
    //@ assert least == 65537;
}

static void prove_zero(void) {
    unsigned found = size_class_of(0);
    //@ assert found == 0;
}

static void check_aligned(size_t size, size_t most, size_t alignment) {
    unsigned found = size_class_aligned(size, alignment);
    //@ assert found < 81;
    size_t bytes = size_class_bytes[found];
    size_t rest = bytes % alignment;
    //@ assert rest == 0;
    //@ assert bytes >= most;
}

static void prove_aligned(void) {
    //@ loop unroll 17;
    for (unsigned bit = 0; bit <= 16; bit++) {
        size_t alignment = (size_t)1 << bit;
        check_aligned(any_size(0, alignment), alignment, alignment);
        size_t least = 1;
        //@ loop unroll 81;
        for (unsigned c = 0; c < CLASS_COUNT; c++) {
            size_t most = size_class_bytes[c];
            if (least >= alignment) check_aligned(any_size(least, most), most, alignment);
            least = most + 1;
        }
        unsigned none = size_class_aligned(any_size(CLASS_BYTES_MAX + 1, SIZE_MAX), alignment);
        //@ assert none == 81;
    }
    //@ loop unroll 64;
    for (unsigned bit = 17; bit < 64; bit++) {
        unsigned none = size_class_aligned(any_size(0, SIZE_MAX), (size_t)1 << bit);
        //@ assert none == 81;
    }
}

int main(void) {
    prove_zero();
    prove_classes();
    prove_aligned();
    return 0;
}
