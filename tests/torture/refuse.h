// The system calls of one thread, while it is inside of the allocator: some are refused at random,
// as the system may refuse them; some behave as on an old kernel; and each address range that is
// freed is mapped at once, as other code of the program might do it, with content that nothing may
// change. Linux 5.11 or later, x86-64 (PR_SET_SYSCALL_USER_DISPATCH). Other threads, such as the
// keeper, make their calls as usual.
#ifndef KEEL_TESTS_REFUSE_H
#define KEEL_TESTS_REFUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum system_age {
    SYSTEM_NEW,
    SYSTEM_BEFORE_6_17, // does not move several mappings at once
    SYSTEM_BEFORE_5_14, // nor populates (5.14), discards locked memory (5.18) or guards (6.13)
    SYSTEM_BEFORE_5_7,  // nor leaves the old range when it moves
};

struct refusals {
    unsigned one_in; // calls; 0: none is refused
    bool occupies;   // freed ranges are mapped again
    enum system_age age;
};
extern struct refusals refusals;

// For a thread that will use refuse_enter. False: the system has no such dispatch.
bool refuse_prepare(uint64_t seed);

// Between these two, the calls of the thread are treated as above.
void refuse_enter(void);
void refuse_leave(void);

// True if the content of all foreign memory is as it was written. `bytes`: how much of it is
// resident at most.
bool foreign_holds(void);
size_t foreign_resident_bytes(void);

// How much memory is resident in ranges that the system refused to unmap and then to discard.
size_t kept_resident_bytes(void);

#endif
