// Static probes (USDT) for perf, bpftrace and other tracers of Linux: a `nop` in the code, and a
// note in the object file that says where it is, how it is called, and in which registers its
// arguments are, or which constants they are. The format is that of SystemTap's sys/sdt.h. A tracer
// replaces the instruction while it looks. Without a tracer a probe costs the `nop`, so none is on
// a fast path.
#ifndef KEEL_BASE_PROBE_H
#define KEEL_BASE_PROBE_H

#include <stdint.h>

#if defined(__ELF__) && defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
// One note: the lengths of its name and of its contents, its type, "stapsdt", and the contents: the
// address of the instruction, that of the base (by which a tracer notices that a tool has moved the
// addresses of the file), no semaphore, and three strings.
#define KEEL_PROBE_NOTE(probe, arguments)                                                          \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                                  \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b\n"                                                                           \
    ".8byte _.stapsdt.base\n"                                                                      \
    ".8byte 0\n"                                                                                   \
    ".asciz \"keel\"\n"                                                                            \
    ".asciz \"" probe "\"\n"                                                                       \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"
// Two arguments of 8 bytes.
#define KEEL_PROBE(name, first, second)                                                            \
    __asm__ volatile(KEEL_PROBE_NOTE(#name, "8@%0 8@%1")                                           \
                     :                                                                             \
                     : "nr"((uint64_t)(first)), "nr"((uint64_t)(second)))
#else
#define KEEL_PROBE(name, first, second) ((void)(first), (void)(second))
#endif

#endif
