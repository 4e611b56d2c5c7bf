// Counts the memory that the program maps itself. The recording lacks its blocks, and a comparison
// of resident memory must say so. The C library's malloc maps memory by a function of its own; what
// another allocator maps is excluded by the address of the call.
#include "base/attributes.h"
#include "next.h"
#include "thread.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void mapping_count(size_t bytes) {
    if (session_state() != SESSION_ON || !session_enter()) return;
    atomic_add(&session.spool->mapped_calls, 1);
    atomic_add(&session.spool->mapped_bytes, bytes);
    session_leave();
}

static void* map(const void* caller, void* address, size_t bytes, int protection, int flags,
                 int file, off_t offset) {
    void* memory = next.mmap != NULL
                       ? next.mmap(address, bytes, protection, flags, file, offset)
                       : (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
    // What is only reserved takes no memory.
    bool counts = memory != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0 &&
                  (protection & PROT_WRITE) != 0 && !next_is_allocator_code(caller) &&
                  inside_of(__builtin_frame_address(0)) == INSIDE_NONE;
    if (counts) mapping_count(bytes);
    return memory;
}

KEEL_EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                       off_t offset) {
    return map(__builtin_return_address(0), address, bytes, protection, flags, file, offset);
}

#undef mmap64 // a macro in musl
KEEL_EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                         off_t offset);
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return map(__builtin_return_address(0), address, bytes, protection, flags, file, offset);
}
