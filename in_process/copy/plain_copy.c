// Compiled with -fno-builtin and without copy/plain_copy.h, so that nothing here becomes a call of
// memcpy or memset.
//
// Up to 128 bytes: all of the source is read before the first write, from both ends, in pieces that
// overlap. So these cases serve memmove, too. More bytes: 64 in one step. From REPEAT_MIN on, one
// instruction of x86-64 that copies or fills is as fast as any loop.
#include <stddef.h>
#include <stdint.h>

// This folder is below base/, whose sources call these functions.
#define HIDDEN __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline, unused))
#define IS_SHORT(bytes) __builtin_expect((bytes) <= 128, 1)

HIDDEN void* plain_memcpy(void* to, const void* from, size_t bytes);
HIDDEN void* plain_memmove(void* to, const void* from, size_t bytes);
HIDDEN void* plain_memset(void* to, int value, size_t bytes);

#define REPEAT_MIN 1024u

#define PIECE(name, type, size)                                                                    \
    typedef type __attribute__((vector_size(size), aligned(1), may_alias)) name
PIECE(piece16, uint64_t, 16);
typedef uint64_t __attribute__((aligned(1), may_alias)) piece8;
typedef uint32_t __attribute__((aligned(1), may_alias)) piece4;
typedef uint16_t __attribute__((aligned(1), may_alias)) piece2;

// Bytes at both ends, which overlap if there are fewer than twice the size of the piece.
#define COPY_ENDS(piece)                                                                           \
    do {                                                                                           \
        piece first = *(const piece*)from;                                                         \
        piece last = *(const piece*)(from + bytes - sizeof(piece));                                \
        *(piece*)to = first;                                                                       \
        *(piece*)(to + bytes - sizeof(piece)) = last;                                              \
    } while (0)

INLINE void copy_to_16(char* to, const char* from, size_t bytes) {
    if (bytes >= 8)
        COPY_ENDS(piece8);
    else if (bytes >= 4)
        COPY_ENDS(piece4);
    else if (bytes >= 2)
        COPY_ENDS(piece2);
    else if (bytes == 1)
        *to = *from;
}

struct line {
    piece16 piece[4];
};
INLINE struct line line_load(const char* from) {
    const piece16* pieces = (const piece16*)from;
    return (struct line){{pieces[0], pieces[1], pieces[2], pieces[3]}};
}
INLINE void line_store(char* to, struct line line) {
    piece16* pieces = (piece16*)to;
    for (unsigned i = 0; i < 4; i++) pieces[i] = line.piece[i];
}

INLINE void copy_to_128(char* to, const char* from, size_t bytes) {
    if (bytes <= 16) {
        copy_to_16(to, from, bytes);
    } else if (bytes <= 32) {
        COPY_ENDS(piece16);
    } else if (bytes <= 64) {
        const piece16* first = (const piece16*)from;
        const piece16* last = (const piece16*)(from + bytes - 32);
        piece16 a = first[0], b = first[1], c = last[0], d = last[1];
        ((piece16*)to)[0] = a;
        ((piece16*)to)[1] = b;
        ((piece16*)(to + bytes - 32))[0] = c;
        ((piece16*)(to + bytes - 32))[1] = d;
    } else {
        struct line first = line_load(from);
        struct line last = line_load(from + bytes - sizeof last);
        line_store(to, first);
        line_store(to + bytes - sizeof last, last);
    }
}

// bytes > 64. The last 64 bytes are read first: a memmove to a lower address may overwrite them.
static void copy_up(char* to, const char* from, size_t bytes) {
    struct line last = line_load(from + bytes - sizeof last);
    char* end = to + bytes - sizeof last;
    for (; to < end; to += sizeof last, from += sizeof last) line_store(to, line_load(from));
    line_store(end, last);
}
static void copy_down(char* to, const char* from, size_t bytes) {
    struct line first = line_load(from);
    for (; bytes > sizeof first; bytes -= sizeof first)
        line_store(to + bytes - sizeof first, line_load(from + bytes - sizeof first));
    line_store(to, first);
}

static __attribute__((noinline)) void copy_more(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
    if (bytes >= REPEAT_MIN) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
        return;
    }
#endif
    copy_up(to, from, bytes);
}

void* plain_memcpy(void* to, const void* from, size_t bytes) {
    if (IS_SHORT(bytes))
        copy_to_128(to, from, bytes);
    else
        copy_more(to, from, bytes);
    return to;
}

void* plain_memmove(void* to, const void* from, size_t bytes) {
    const size_t distance = (uintptr_t)to - (uintptr_t)from;
    if (IS_SHORT(bytes))
        copy_to_128(to, from, bytes);
    else if (distance < bytes) // the source begins before the target
        copy_down(to, from, bytes);
    else if (0 - distance < bytes)
        copy_up(to, from, bytes);
    else
        copy_more(to, from, bytes);
    return to;
}

#define FILL_ENDS(piece, value)                                                                    \
    do {                                                                                           \
        *(piece*)at = (value);                                                                     \
        *(piece*)(at + bytes - sizeof(piece)) = (value);                                           \
    } while (0)

void* plain_memset(void* to, int value, size_t bytes) {
    char* at = to;
    const uint64_t word = (uint8_t)value * UINT64_C(0x0101010101010101);
    const piece16 pair = {word, word};
    if (bytes < 16) {
        if (bytes >= 8)
            FILL_ENDS(piece8, word);
        else if (bytes >= 4)
            FILL_ENDS(piece4, (uint32_t)word);
        else if (bytes >= 2)
            FILL_ENDS(piece2, (uint16_t)word);
        else if (bytes == 1)
            *at = (char)value;
        return to;
    }
#if defined(__x86_64__)
    if (bytes >= REPEAT_MIN) {
        __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
        return to;
    }
#endif
    char* end = at + bytes - sizeof pair;
    const struct line line = {{pair, pair, pair, pair}};
    for (; (size_t)(end - at) >= sizeof line && at < end; at += sizeof line) line_store(at, line);
    for (; at < end; at += sizeof pair) *(piece16*)at = pair;
    *(piece16*)end = pair;
    return to;
}
