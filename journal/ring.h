/* The contract between a recorded program and `keel record`: shared memory, written by one side,
 * read by the other.
 *
 * A SESSION is a folder on a memory file system, made by the reader (`keel record`). It holds
 *
 *   control      one page: what the reader wants, and the bell that wakes it (struct kl_control)
 *   <pid>.<n>    one SPOOL for each image of each recorded process (n counts its exec calls)
 *
 * A spool is sparse. Its pages are reserved (posix_fallocate) before a ring is offered, so that a
 * full file system is seen as an error of the reader and never as a SIGBUS in the program.
 *
 *   0        4096                      KL_SPOOL_MAPS       KL_SPOOL_RINGS
 *   +--------+-------------------------+-------------------+----------------+-------------+----
 *   | header | ring table: KL_RING_MAX | object files, as  | ring 0         | ring 1      | ...
 *   |        | entries of 16 bytes     | /proc/self/maps   |                |             |
 *   +--------+-------------------------+-------------------+----------------+-------------+----
 *                                                            |
 *        +----------------+---------------+----------------+--+-----+--------+--- - - ---+-------+
 *        | producer line  | reader line   | stacks told ...| slot 0 | slot 1 |           | n - 1 |
 *        +----------------+---------------+----------------+--------+--------+--- - - ---+-------+
 *
 * A RING has one producer at a time: the thread that took it from FREE to OWNED. Slots are numbered
 * by an index that only grows; index i lives in slot i mod n, in lap i div n. A slot is published
 * by its last word, `word`, which carries the lap's tag: the slot is full for index i when the
 * operation is not 0 and the tag is that of i's lap. So the reader needs no shared write index, one
 * event is one half of a cache line and nothing else, and whatever kills the program, all that was
 * published is there.
 *
 *   reader's invariant:   tail <= every index not yet read;  tail grows by what was copied out
 *   producer's invariant: it writes index i only when i < tail + n; else it waits, and counts the
 * wait. No drops.
 *
 * ORDER. Times are of one clock for all threads. As soon as a process has two threads they are read
 * behind all earlier loads, so what depends on another event has the later time, as exactly as the
 * processors' counters agree; but the time of a free may be too early by as much as a processor runs
 * ahead, some hundred nanoseconds. What always holds is the order of
 * publication: a free is published before the block is given up, a birth before the block is known
 * to anybody else. Hence all that an event depends on was published before it. The reader builds on
 * both.
 *
 * Source of the slot protocol: the reader-free index of FastForward (Giacomoni et al., PPoPP 2008),
 * with a lap tag in place of clearing, so that the reader does not write to the slots.
 *
 * The Rust mirror is lab/record/src/ring.rs; both sides assert every offset. */
#ifndef KEEL_JOURNAL_RING_H
#define KEEL_JOURNAL_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define KL_SESSION_VARIABLE "KEEL_RECORDER_SESSION" /* environment: the session's folder */
#define KL_CONTROL_MAGIC 0x31304c5254434c4bull      /* "KLCTRL01" */
#define KL_SPOOL_MAGIC 0x3130474e49524c4bull        /* "KLRING01" */
#define KL_RING_VERSION 2u

#define KL_PAGE_BYTES 4096u
#define KL_RING_MAX 8192u
#define KL_SPOOL_MAPS (KL_PAGE_BYTES + KL_RING_MAX * 16u)
#define KL_MAPS_BYTES 65536u
#define KL_SPOOL_RINGS (KL_SPOOL_MAPS + KL_MAPS_BYTES)
#define KL_RING_HEADER_BYTES 4096u

/* The first rings are for the threads that work; a program with hundreds of threads gets smaller
 * ones for the rest. */
#define KL_LARGE_RINGS 4u
#define KL_LARGE_RING_SLOTS 32768u
#define KL_MIDDLE_RINGS 64u
#define KL_MIDDLE_RING_SLOTS 8192u
#define KL_SMALL_RING_SLOTS 2048u

/* What a slot says. The numbers are of this contract only, not of the journal file.
 *
 * ORIGIN, the extra of operations 1 to 6: with bit 47 clear the address that the call returns to
 * (0: unknown), else the low 47 bits name a stack that KL_RING_STACK slots of this ring have told
 * before.
 *
 * TOLD, the size of KL_RING_FREE: 0 when the program told nothing but the address, as free does. Else
 * what it told of the block: with KL_TOLD_SIZE set the bits below are a size (free_sized, operator
 * delete with a size), and the top 6 bits are log2 of an alignment, or 0 for none
 * (free_aligned_sized, operator delete with an alignment). Readers from before this was told pass
 * over it. */
enum kl_ring_op {
    KL_RING_EMPTY = 0,
    KL_RING_MALLOC = 1,       /* time after the call, address, size */
    KL_RING_FREE = 2,         /* time before the call, address, size = what was told (TOLD) */
    KL_RING_CALLOC = 3,       /* as malloc; size is the product */
    KL_RING_ALIGNED = 4,      /* as malloc; the size's top 6 bits = log2 of the alignment */
    KL_RING_REALLOC_NULL = 5, /* realloc(NULL, size): as malloc */
    KL_RING_REALLOC_BEGIN =
        6, /* time before the call, address = old block, size: gives the old block up */
    KL_RING_REALLOC_END =
        7, /* time after, address = new block, size, extra = old block's low 48 bits.
              address 0: with size 0 the block was freed, else the call failed */
    KL_RING_THREAD_BEGIN =
        8, /* this ring's next events are of the thread: address = tid, size = its serial number */
    KL_RING_THREAD_END = 9,   /* address, size = the thread's name, 16 bytes */
    KL_RING_FRAME = 10,       /* a frame ends */
    KL_RING_STACK = 11,       /* two more return addresses of the stack `extra`, innermost first:
                                 address, size (0: none) */
    KL_RING_TEXT = 12,        /* 16 bytes of a mark's text: address, size */
    KL_RING_MARK = 13,        /* the last 16 bytes, NUL-padded: a named moment */
    KL_RING_THREAD_NAME = 14, /* address, size = the thread's name from now on, 16 bytes */
};

#define KL_ORIGIN_STACK (UINT64_C(1) << 47)
#define KL_ALIGN_SHIFT 58 /* of KL_RING_ALIGNED's size, and of TOLD */
#define KL_TOLD_SIZE (UINT64_C(1) << 57)
#define KL_TOLD_SIZE_MAX (KL_TOLD_SIZE - 1) /* stands for all larger ones, which no block has */
#define KL_MARK_BYTES 240u                  /* the longest text of a mark */

/* One slot. word = extra (48 bits) << 16 | tag of the lap << 8 | operation; stored last, with
 * release. */
struct kl_ring_event {
    uint64_t time;
    uint64_t address;
    uint64_t size;
    uint64_t word;
};
static_assert(sizeof(struct kl_ring_event) == 32, "two slots a cache line");

#define KL_EXTRA_BITS 48
#define KL_EXTRA_MASK ((UINT64_C(1) << KL_EXTRA_BITS) - 1)

struct kl_ring {
    /* Written by the producer. */
    uint64_t head;   /* valid while the ring is FREE: the index at which the next owner goes on */
    uint64_t stalls; /* how often an owner waited for room, */
    uint64_t stalled_ticks; /* and for how long, in the clock's ticks */
    uint32_t waiting;       /* 1: the owner sleeps on `tail_bell` */
    uint32_t reserved0;
    uint64_t reserved1[4];
    /* Written by the reader. */
    uint64_t tail;      /* indexes below may be overwritten */
    uint32_t tail_bell; /* futex: changes when tail does and somebody waits */
    uint32_t reserved2;
    uint64_t reserved3[6];
};
static_assert(sizeof(struct kl_ring) == 128, "one line for each side");
static_assert(offsetof(struct kl_ring, tail) == 64, "the sides share no line");

/* Stacks that this ring has told lately, by name; the producers' own notes, which the reader does
 * not look at. They lie behind struct kl_ring. */
#define KL_RING_TOLD 256u
static_assert(sizeof(struct kl_ring) + KL_RING_TOLD * 8 <= KL_RING_HEADER_BYTES, "one page");

enum kl_ring_state {
    KL_RING_ABSENT = 0, /* its memory is not reserved; nobody may touch it */
    KL_RING_FREE_STATE = 1,
    KL_RING_OWNED = 2,
};

struct kl_ring_entry {
    uint64_t offset; /* of the struct kl_ring from the start of the spool; a multiple of 4096 */
    uint32_t slots;  /* a power of two */
    uint32_t state;  /* enum kl_ring_state */
};
static_assert(sizeof(struct kl_ring_entry) == 16, "the table is drawn with 16");

/* The spool's first page. The recorder fills it in and sets `ready` last. */
struct kl_spool {
    uint64_t magic;
    uint32_t version;
    uint32_t ready;
    uint32_t pid;
    uint32_t prepared; /* rings 0 .. prepared - 1 have memory. Ring 0 by the recorder, the others by
                          the reader; futex for threads that wait for one */
    uint64_t started_ticks; /* when the recording of this image began */
    uint32_t wanted;        /* threads that wait for a ring right now */
    uint32_t stopped;       /* enum kl_stop: the program records no more, since stop_ticks */
    uint64_t stop_ticks;
    uint32_t maps_bytes; /* length of the list of object files at the start */
    uint32_t clock;      /* enum kl_clock */
    uint64_t reserved[25];
    char allocator[256];                  /* path of the object that serves malloc */
    char program[512];                    /* /proc/self/exe */
    char arguments[KL_PAGE_BYTES - 1024]; /* /proc/self/cmdline, as far as it fits */
};
static_assert(sizeof(struct kl_spool) == KL_PAGE_BYTES, "one page");
static_assert(offsetof(struct kl_spool, stop_ticks) == 40, "as in ring.rs");
static_assert(offsetof(struct kl_spool, allocator) == 256, "as in ring.rs");

enum kl_stop {
    KL_STOP_NONE = 0,
    KL_STOP_READER_DEAD = 1,      /* nobody reads any more */
    KL_STOP_READER_ASKED = 2,     /* control.stop was set */
    KL_STOP_TOO_MANY_THREADS = 3, /* all KL_RING_MAX rings are owned */
    KL_STOP_DISK_FULL = 4,        /* a recording without `keel record` could not be written on */
    KL_STOP_PROGRAM = 5           /* kl_record_stop */
};

enum kl_clock { KL_CLOCK_TSC = 0, KL_CLOCK_MONOTONIC = 1 };

/* The session's `control` file. */
struct kl_control {
    uint64_t magic;
    uint32_t version;
    uint32_t clock;      /* enum kl_clock */
    uint32_t follow;     /* 1: every process of the tree is recorded; 0: only root_pid */
    uint32_t root_pid;   /* the program */
    uint32_t reader_pid; /* `keel record` */
    uint32_t stop;       /* 1: record no more */
    uint64_t heartbeat;  /* the reader counts its rounds here */
    uint32_t bell;       /* futex: counts up to wake the reader, */
    uint32_t sleeping;   /* which sleeps when this is 1 */
    uint32_t spools;     /* spools announced so far */
    uint32_t failed;     /* the errno with which a process could not make its spool; 0: none */
    uint32_t stacks;     /* return addresses wanted of each call; 0: only the caller */
    uint32_t embedded; /* 1: not malloc is recorded but what the program tells (keel/recorder.h) */
};
static_assert(sizeof(struct kl_control) == 64, "as in ring.rs");
static_assert(offsetof(struct kl_control, heartbeat) == 32, "as in ring.rs");

/* The file of a recording without `keel record` (keel/recorder.h): a struct kl_spool whose magic is
 * KL_LOG_MAGIC, then chunks, each a struct kl_log_chunk and so many bytes. The rings lie in a second
 * file beside it, NAME.rings, laid out as a spool; the recording threads empty their own rings into
 * chunks. It is removed when the recording ends; after a crash it holds the last events. */
#define KL_LOG_MAGIC 0x314c4f4f50534c4bull   /* "KLSPOOL1" */
#define KL_CHUNK_MAGIC 0x314b4e5548434c4bull /* "KLCHUNK1" */

enum kl_chunk_kind {
    KL_CHUNK_EVENTS = 1, /* slots of ring `ring`, from index `first` on */
    KL_CHUNK_MAPS = 2,   /* object files, as /proc/self/maps */
    KL_CHUNK_END = 3     /* the recording ended in order; no bytes */
};

struct kl_log_chunk {
    uint64_t magic;
    uint32_t kind; /* enum kl_chunk_kind */
    uint32_t ring;
    uint64_t first;
    uint64_t bytes;         /* that follow */
    uint64_t ticks;         /* one moment on the recording's clock, */
    uint64_t raw_ns;        /* and on CLOCK_MONOTONIC_RAW */
    uint64_t stalls;        /* how often this ring was emptied by its thread while it recorded, */
    uint64_t stalled_ticks; /* and how long that took in all */
};
static_assert(sizeof(struct kl_log_chunk) == 64, "as in log.rs");

/* The ring's place in the spool: large ones first. */
static inline uint32_t kl_ring_slots(uint32_t index) {
    if (index < KL_LARGE_RINGS) return KL_LARGE_RING_SLOTS;
    return index < KL_MIDDLE_RINGS ? KL_MIDDLE_RING_SLOTS : KL_SMALL_RING_SLOTS;
}

static inline uint64_t kl_ring_bytes(uint32_t slots) {
    return KL_RING_HEADER_BYTES + (uint64_t)slots * sizeof(struct kl_ring_event);
}

static inline uint64_t kl_ring_offset(uint32_t index) {
    uint32_t large = index < KL_LARGE_RINGS ? index : KL_LARGE_RINGS;
    uint32_t middle = index < KL_MIDDLE_RINGS ? index - large : KL_MIDDLE_RINGS - KL_LARGE_RINGS;
    uint32_t small = index - large - middle;
    return KL_SPOOL_RINGS + large * kl_ring_bytes(KL_LARGE_RING_SLOTS) +
           middle * kl_ring_bytes(KL_MIDDLE_RING_SLOTS) +
           small * kl_ring_bytes(KL_SMALL_RING_SLOTS);
}

/* The tag of the lap in which `index` falls; shift = log2 of the number of slots. */
static inline uint64_t kl_ring_tag(uint64_t index, unsigned shift) {
    return ((index >> shift) + 1) & 0xff;
}

#endif
