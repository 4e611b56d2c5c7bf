// Addresses that a program may pass: any 64 bits.
//
// A process has addresses of 48 bits. (x86-64 and arm64 have longer ones only on request.) On arm64
// the processor ignores the top byte of an address, so a program may store a tag there. Then the
// tagged and the plain address denote the same block.
#ifndef KEEL_BASE_ADDRESS_H
#define KEEL_BASE_ADDRESS_H

#include "base/attributes.h"
#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_BITS 48

// The address without its tag. The address itself on machines without tags.
KEEL_INLINE void* address_untagged(const void* address) {
#if defined(__aarch64__)
    return (void*)((uintptr_t)address & (UINT64_MAX >> 8));
#else
    return (void*)(uintptr_t)address;
#endif
}

// False: no process has this address.
KEEL_INLINE bool address_is_possible(const void* address) {
    return (uintptr_t)address_untagged(address) >> ADDRESS_BITS == 0;
}

#endif
