// How the recorder gets the calls of an allocator that a program contains: it changes the beginning
// of each of the allocator's functions. `keel record` reads the program's file before it starts the
// program, and writes the changes to the session's file KL_PATCHES_NAME, an array of struct
// kl_patch, which the recorder maps.
//
//   the function                    the recorder's memory, at most 2 GiB away
//   +---------------------------+   +----------------------------------+
//   | endbr64, if it has one    | .>| push name; jmp to recorder/entry |
//   | jmp ----------------------|-' | endbr64                          | <- called by the recorder
//   | (rest of the replaced)    |   | code: the replaced instructions, |
//   | the other instructions  <-|---|       and a jmp back             |
//   +---------------------------+   +----------------------------------+
//
// The Rust mirror is lab/record/src/contained/patch.rs.
#ifndef KEEL_JOURNAL_PATCHES_H
#define KEEL_JOURNAL_PATCHES_H

#include <assert.h>
#include <stdint.h>

#define KL_PATCHES_NAME "patches"
#define KL_PATCH_ORIGINAL_BYTES 24u
#define KL_PATCH_CODE_BYTES 64u
#define KL_PATCH_JUMP_BYTES 5u

struct kl_patch {
    uint64_t device; // the object file,
    uint64_t inode;
    uint64_t function; // the function's address as the file states it,
    uint64_t offset;   // and its place in the file
    // The code is right at the address `place`. Elsewhere: bit i of `distances`: at code[i] is a
    // 32-bit distance to an address in the object. Bit i of `addresses`: at code[i] is a 64-bit
    // address in the object.
    uint64_t place;
    uint64_t distances;
    uint64_t addresses;
    uint64_t base;          // 0; the recorder stores what it adds to the file's addresses,
    uint8_t is_loaded;      // and 1 if the object is loaded
    uint8_t skipped;        // the function's bytes before the jump
    uint8_t original_bytes; // the bytes that must be there: those of whole instructions
    uint8_t code_bytes;     // 0: nothing is changed, the recorder calls the function
    uint32_t name;          // its index in kl_record_names (recorder/names.h)
    uint8_t original[KL_PATCH_ORIGINAL_BYTES];
    uint8_t code[KL_PATCH_CODE_BYTES];
};
static_assert(sizeof(struct kl_patch) == 160, "as in patch.rs");

// What became of the changes: of a value, the low 8 bits. Above them is an errno, or 0.
enum kl_patch_state {
    KL_PATCHES_NONE = 0, // there were none for this program
    KL_PATCHES_DONE = 1,
    KL_PATCHES_THREADS = 2, // another thread runs already
    KL_PATCHES_SHADOW = 3,  // the return addresses are protected (shadow stack)
    KL_PATCHES_DIFFER = 4,  // the functions are not those of the file
    KL_PATCHES_NO_ROOM = 5, // no memory near the functions
    KL_PATCHES_REFUSED = 6, // the system does not let code be changed
};

#endif
