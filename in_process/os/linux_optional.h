// Functions of glibc that the process may not have.
#ifndef KEEL_OS_LINUX_OPTIONAL_H
#define KEEL_OS_LINUX_OPTIONAL_H

// Before 2.34, functions of libpthread and libdl. libkeel.so loads neither library
// (docs/decisions/0029-start-of-a-process.md). It refers to the functions in libc by their first
// version, KEEL_FIRST_GLIBC. Before 2.34 the loader finds them in what the program itself has
// loaded at its start; otherwise the address is NULL. In a static library, and built with an older
// glibc, they are plain references.
#if defined(KEEL_FIRST_GLIBC)
#define OPTIONAL_PRAGMA(text) _Pragma(#text)
#define OPTIONAL(name)                                                                             \
    OPTIONAL_PRAGMA(weak name) __asm__(".symver " #name "," #name "@" KEEL_FIRST_GLIBC)
#else
#define OPTIONAL(name) _Static_assert(sizeof(&(name)) != 0, "")
#endif

#endif
