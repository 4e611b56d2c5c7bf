// Whose malloc the program has. The program itself, or a library that was preloaded before Keel,
// may define malloc and free, but not the rest of the family. Then Keel's functions of the rest
// must use that malloc: the program passes their blocks to its own free.
#ifndef KEEL_ALLOCATOR_OVERRIDE_WINNER_H
#define KEEL_ALLOCATOR_OVERRIDE_WINNER_H

#include <stddef.h>

struct winner {
    void* (*malloc)(size_t size);
    void* (*realloc)(void* block, size_t size);
    void (*free)(void* block);
};

// The addresses of this library's functions. To be called once, in a constructor.
struct winner_own {
    void* (*malloc)(size_t size);
    void* (*pvalloc)(size_t size);
    void* (*reallocarray)(void* block, size_t count, size_t size);
};
void winner_set_own(struct winner_own own);

// NULL: the program's malloc returns Keel's blocks. Cheap after the first call of the process.
const struct winner* winner_not_keel(void);

// Its aligned allocation, if it has one; else Keel's, whose blocks it does not know, as with the C
// library's. The alignment is a power of two.
void* winner_aligned(size_t alignment, size_t size);

#endif
