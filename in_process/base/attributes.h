// Compiler attributes under short names, so that no other file needs to know which compiler it is.
#ifndef KEEL_BASE_ATTRIBUTES_H
#define KEEL_BASE_ATTRIBUTES_H

_Static_assert(sizeof(void*) == 8, "Keel needs a target with addresses of 64 bits");

#define KEEL_LIKELY(x) __builtin_expect(!!(x), 1)
#define KEEL_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define KEEL_INLINE static inline __attribute__((always_inline, unused))
#define KEEL_PREFETCH(address) __builtin_prefetch(address)
// Likewise, for a cache line that will be written. Compilers use this instruction of x86-64 only if
// they are asked to; processors without it do nothing.
#if defined(__x86_64__)
#define KEEL_PREFETCH_TO_WRITE(address)                                                            \
    __asm__ volatile("prefetchw %0" : : "m"(*(const char*)(address)))
#else
#define KEEL_PREFETCH_TO_WRITE(address) __builtin_prefetch((address), 1)
#endif

#define KEEL_NOINLINE __attribute__((noinline))
#define KEEL_COLD __attribute__((noinline, cold))
#define KEEL_NORETURN __attribute__((noreturn))
#define KEEL_ALIGNED(n) __attribute__((aligned(n)))
// For reports, which read fields while other threads may write them: any value that a field has had
// is acceptable.
#define KEEL_UNRACED __attribute__((noinline, no_sanitize("thread")))
// For updates of fields whose last writer was ordered before this thread by os_order_threads. The
// thread sanitizer does not know this ordering. The explorer of interleavings knows it, and
// observes these updates.
#ifndef KEEL_UNRACED_UPDATE
#define KEEL_UNRACED_UPDATE KEEL_UNRACED
#endif
#if defined(_WIN32)
#if defined(KEEL_IS_DLL)
#define KEEL_EXPORT __declspec(dllexport)
#else
#define KEEL_EXPORT
#endif
#define KEEL_HIDDEN
#else
#define KEEL_EXPORT __attribute__((visibility("default")))
// For a variable that a fast path reads: the compiler reads it at its place, not through a table.
#define KEEL_HIDDEN __attribute__((visibility("hidden")))
#endif

// For a variable of several kilobytes that is zero at first: behind the small ones, so that these
// share few system pages. LARGER: behind those as well, because a process touches little of it.
#if defined(_WIN32) || defined(__APPLE__) // where sections with other names lie in the file
#define KEEL_LARGE
#define KEEL_LARGER
#else
#define KEEL_LARGE __attribute__((section(".bss.large")))
#define KEEL_LARGER __attribute__((section(".bss.larger")))
#endif

// Thread-local variables at a fixed offset from the thread pointer: no call to __tls_get_addr, no
// lazy allocation inside malloc. Works with LD_PRELOAD and static linking, and with dlopen while
// libc has enough spare bytes of static TLS. libkeel_api.so is made for dlopen and does not define
// malloc; it is built with another model.
#ifndef KEEL_TLS_MODEL
#define KEEL_TLS_MODEL "initial-exec"
#define KEEL_TLS_IS_STATIC 1 // every thread's variables are at fixed places from its pointer
#endif
#if defined(_WIN32) // where there is one model
#define KEEL_TLS _Thread_local
#else
#define KEEL_TLS _Thread_local __attribute__((tls_model(KEEL_TLS_MODEL)))
#endif

// Hides a value from the compiler, which then keeps it in one register and does not form a second
// address from the same symbol.
#define KEEL_OPAQUE(value) __asm__("" : "+r"(value))
#if defined(__x86_64__)
#define KEEL_OPAQUE_VECTOR(value) __asm__("" : "+x"(value)) // of 16 bytes
#elif defined(__aarch64__)
#define KEEL_OPAQUE_VECTOR(value) __asm__("" : "+w"(value))
#else // a processor that may have no such register
#define KEEL_OPAQUE_VECTOR(value) ((void)(value))
#endif
// The parameter of malloc_usable_size, as the C library declares it.
#if defined(__FreeBSD__) || defined(__NetBSD__) || defined(__ANDROID__)
#define KEEL_USABLE_BLOCK const void*
#else
#define KEEL_USABLE_BLOCK void*
#endif
#define KEEL_FALL_THROUGH __attribute__((fallthrough))

#define KEEL_CACHE_LINE 64

#endif
