// Linked into each program whose malloc must be Keel's.
#include "check.h"
#include <keel/keel.h>
#include <stdlib.h>

TEST(malloc_is_the_one_of_keel) {
    void* block = malloc(100);
    CHECK(kl_contains(block));
    free(block);
}
