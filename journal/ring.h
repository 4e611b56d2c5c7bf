// The contract between a recorded program and `keel record`: shared memory that one side writes and
// the other reads.
//
// A SESSION is a folder on a memory file system, created by the reader (`keel record`). It holds
//
//   control      one page: the reader's settings, and the bell that wakes it (struct kl_control)
//   <pid>.<n>    one SPOOL for each image of each recorded process (n counts its exec calls)
//   executed     a line for each call of exec by a recorded process (KL_EXECUTED_NAME)
//
// A spool is sparse. Its pages are reserved (posix_fallocate) before a ring is offered, so a full
// file system is an error in the reader and never a SIGBUS in the program.
//
// clang-format off
//   0        4096                      KL_SPOOL_MAPS       KL_SPOOL_RINGS
//   +--------+-------------------------+-------------------+----------------+-------------+----
//   | header | ring table: KL_RING_MAX | object files, as  | ring 0         | ring 1      | ...
//   |        | entries of 16 bytes     | /proc/self/maps   |                |             |
//   +--------+-------------------------+-------------------+----------------+-------------+----
//                                                            |
//        +----------------+---------------+--------+--------+--- - - ---+-------+----------------+
//        | producer line  | reader line   | slot 0 | slot 1 |           | n - 1 | recent stacks  |
//        +----------------+---------------+--------+--------+--- - - ---+-------+----------------+
// clang-format on
//
// A RING has one producer at a time: the thread that changed its state from FREE to OWNED. Slots
// are numbered by an index that only grows; index i is in slot i mod n, in lap i div n. A slot is
// published by its last word, `word`, which contains the lap's tag: the slot is full for index i
// when the operation is not 0 and the tag is that of i's lap. So the reader needs no shared write
// index, one event is half a cache line, and if the program is killed, everything that was
// published can still be read.
//
//   reader's invariant:   tail <= every index not yet read; tail grows by the number copied out
//   producer's invariant: writes index i only if i < tail + n; otherwise it waits and counts the
//                         wait. No event is dropped.
//
// ORDER. All threads read the same clock. Once a process has two threads, the clock is read after
// all earlier loads, so an event that depends on another has the later time, as exactly as the
// processors' counters agree. The order of publication always holds: a free is published before the
// block is released, and an allocation before any other thread can know the block. So every event
// is published after those that it depends on. The reader relies on both.
//
// Source of the slot protocol: the index without sharing of FastForward (Giacomoni et al., PPoPP
// 2008), with a lap tag instead of clearing, so that the reader does not write to the slots.
//
// Accesses to fields marked _Atomic are atomic on both sides; the others are written before a
// release and read after the matching acquire. The Rust mirror is lab/record/src/ring.rs; both
// sides assert every offset.
#ifndef KEEL_JOURNAL_RING_H
#define KEEL_JOURNAL_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define KL_SESSION_VARIABLE "KEEL_RECORDER_SESSION" // environment: the session's folder
// Lines `<pid> <how> <path>`; pid 0 stands for a new child. How is the letter r if the new program
// gets the recorder's variables, c if its environment lacks them, u if this process can no longer
// open the session's files, and f if the call before returned because it failed.
#define KL_EXECUTED_NAME "executed"
#define KL_CONTROL_MAGIC 0x31304c5254434c4bull // "KLCTRL01"
#define KL_SPOOL_MAGIC 0x3130474e49524c4bull   // "KLRING01"
#define KL_RING_VERSION 6u

#define KL_PAGE_BYTES 4096u
#define KL_RING_MAX 8192u
#define KL_SPOOL_MAPS (KL_PAGE_BYTES + KL_RING_MAX * 16u)
#define KL_MAPS_BYTES 65536u
#define KL_SPOOL_RINGS (KL_SPOOL_MAPS + KL_MAPS_BYTES)

// The first threads get large rings; in a program with hundreds of threads the others get smaller
// ones. To reserve a ring takes time for each page, which thousands of threads that start together
// would notice. The thread touches only the first page, until it has filled the slots there.
#define KL_LARGE_RINGS 4u
#define KL_LARGE_RING_SLOTS 32768u
#define KL_MIDDLE_RINGS 64u
#define KL_MIDDLE_RING_SLOTS 8192u
#define KL_SMALL_RINGS 256u
#define KL_SMALL_RING_SLOTS 2048u
#define KL_LEAST_RING_SLOTS 512u

// The operation in a slot. The numbers belong to this contract only, not to the journal file.
//
// ORIGIN, the extra of operations 1 to 6 and 19: with bit 47 clear, the return address of the call
// (0: unknown). With bit 47 set, the low 47 bits name a stack that earlier KL_RING_STACK slots of
// this ring describe.
//
// HINT, the size of KL_RING_FREE: 0 if the program passed only the address, as with free.
// Otherwise: with KL_HINT_SIZE set the bits below it are a size (free_sized, operator delete with a
// size); the top 6 bits are log2 of an alignment, or 0 for none (free_aligned_sized, operator
// delete with an alignment).
enum kl_ring_op {
    KL_RING_EMPTY = 0,
    KL_RING_MALLOC = 1,       // time after the call, address, size
    KL_RING_FREE = 2,         // time before the call, address, size = the hint (HINT)
    KL_RING_CALLOC = 3,       // as malloc; size is the product
    KL_RING_ALIGNED = 4,      // as malloc; the size's top 6 bits = log2 of the alignment
    KL_RING_REALLOC_NULL = 5, // realloc(NULL, size): as malloc
    // time before the call, address = old block, size: releases the old block
    KL_RING_REALLOC_BEGIN = 6,
    // time after the call, address = new block, size, extra = old block's low 48 bits.
    // address 0: with size 0 the block was freed, otherwise the call failed
    KL_RING_REALLOC_END = 7,
    // this ring's next events are of this thread: address = tid, size = its serial number
    KL_RING_THREAD_BEGIN = 8,
    KL_RING_THREAD_END = 9, // address, size = the thread's name, 16 bytes
    KL_RING_FRAME = 10,     // a frame ends
    // two more return addresses of the stack `extra`, innermost first: address, size (0: none)
    KL_RING_STACK = 11,
    KL_RING_TEXT = 12,        // 16 bytes of a mark's text: address, size
    KL_RING_MARK = 13,        // a named mark; the last 16 bytes of its text, NUL-padded
    KL_RING_THREAD_NAME = 14, // address, size = the new name of the thread, 16 bytes
    // A sample of the caches (recorder/caches.h): time of the event before; address = ticks since
    // the chain of lines was read, size = ticks that it took to read them again
    KL_RING_CACHES = 15,
    // Code of an object file was unmapped: address = its first byte, size = the byte after its
    // last, extra = its offset in the file. KL_RING_PATH slots before it contain the path, 16 bytes
    // each
    KL_RING_UNLOADED = 16,
    KL_RING_PATH = 17,
    // A call that may wait (recorder/calls.h), after the call: the 16 bytes address, size = the
    // kind (enum kl_call_kind) and the name of the function, extra = ORIGIN. A KL_RING_TOOK before
    // it has address = the ticks that it took
    KL_RING_TOOK = 18,
    KL_RING_CALL = 19,
    // The allocation before it in this ring was slow: address = ticks of the call, size and extra
    // are its size and origin. Only if the reader asks for slow calls (slow_ticks)
    KL_RING_SLOW = 20,
};

// The first character of the name of a call.
enum kl_call_kind {
    KL_CALL_LOCK = 'l',
    KL_CALL_FILE = 'f',
    KL_CALL_SLEEP = 's',
};

#define KL_ORIGIN_STACK (UINT64_C(1) << 47)
#define KL_ALIGN_SHIFT 58 // in KL_RING_ALIGNED's size and in HINT
#define KL_HINT_SIZE (UINT64_C(1) << 57)
#define KL_HINT_SIZE_MAX (KL_HINT_SIZE - 1) // represents all larger sizes, which no block has
#define KL_MARK_BYTES 240u                  // the longest text of a mark

// word = extra (48 bits) << 16 | tag of the lap << 8 | operation; stored last, with release.
struct kl_ring_slot {
    uint64_t time;
    uint64_t address;
    uint64_t size;
    _Atomic uint64_t word;
};
static_assert(sizeof(struct kl_ring_slot) == 32, "two slots per cache line");

#define KL_EXTRA_BITS 48
#define KL_EXTRA_MASK ((UINT64_C(1) << KL_EXTRA_BITS) - 1)

struct kl_ring {
    // Written by the producer.
    uint64_t head;            // valid while the ring is FREE: the next owner's first index
    uint64_t stalls;          // number of waits of the owners for space
    uint64_t stalled_ticks;   // total time of these waits, in ticks of the clock
    _Atomic uint32_t waiting; // 1: the owner sleeps on `tail_bell`
    uint32_t touched_pages;   // at the ring's beginning, by its owners; 0: none or one
    uint64_t reserved1[4];
    // Written by the reader.
    _Atomic uint64_t tail;      // lower indexes may be overwritten
    _Atomic uint32_t tail_bell; // futex: changes with tail if the owner waits
    uint32_t reserved2;
    uint64_t reserved3[6];
};
static_assert(sizeof(struct kl_ring) == 128, "one cache line for each side");
static_assert(offsetof(struct kl_ring, tail) == 64, "the sides share no cache line");

// Names of stacks that this ring has described recently. They follow the slots; only the producers
// use them.
#define KL_RING_STACKS 256u
#define KL_RING_OTHER_BYTES (sizeof(struct kl_ring) + KL_RING_STACKS * 8)
static_assert(KL_RING_OTHER_BYTES <= KL_PAGE_BYTES, "kl_ring_bytes adds one page to the slots");

enum kl_ring_state {
    // No thread has owned it. The reader does not touch its memory, which may have no pages yet
    KL_RING_NEW = 0,
    KL_RING_FREE_STATE = 1,
    KL_RING_OWNED = 2,
};

struct kl_ring_entry {
    uint64_t offset;        // of the struct kl_ring from the start of the spool; a multiple of 4096
    uint32_t slots;         // a power of two
    _Atomic uint32_t state; // enum kl_ring_state
};
static_assert(sizeof(struct kl_ring_entry) == 16, "the table above has 16");

// The spool's first page. The recorder fills it in and sets `ready` last.
struct kl_spool {
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t ready;
    uint32_t pid;
    // Rings 0 .. prepared - 1 have memory: ring 0 from the recorder, the others from the reader.
    _Atomic uint32_t prepared;
    uint64_t started_ticks;   // when the recording of this image began
    _Atomic uint32_t wanted;  // threads that wait for a ring now
    _Atomic uint32_t stopped; // enum kl_stop: the program has not recorded since stop_ticks
    _Atomic uint64_t stop_ticks;
    uint32_t maps_bytes; // length of the list of object files at the start
    uint32_t clock;      // enum kl_clock
    // Futex of the threads that wait for a ring: changes when rings get memory or become free. It
    // wakes as many threads as there are new rings.
    _Atomic uint32_t ring_bell;
    _Atomic uint32_t patched; // enum kl_patch_state (journal/patches.h)
    // Writable anonymous memory that the program has mapped itself, not through malloc
    _Atomic uint64_t mapped_calls;
    _Atomic uint64_t mapped_bytes;
    uint64_t pid_namespace; // inode of the namespace in which `pid` counts; 0: not known
    uint64_t reserved[21];
    char allocator[256];                  // path of the object that defines malloc
    char program[512];                    // /proc/self/exe
    char other_allocator[256];            // of one that defines other functions of its family
    char arguments[KL_PAGE_BYTES - 1280]; // /proc/self/cmdline, as much as fits
};
static_assert(sizeof(struct kl_spool) == KL_PAGE_BYTES, "one page");
static_assert(offsetof(struct kl_spool, stop_ticks) == 40, "as in ring.rs");
static_assert(offsetof(struct kl_spool, ring_bell) == 56, "as in ring.rs");
static_assert(offsetof(struct kl_spool, mapped_calls) == 64, "as in ring.rs");
static_assert(offsetof(struct kl_spool, allocator) == 256, "as in ring.rs");

enum kl_stop {
    KL_STOP_NONE = 0,
    KL_STOP_READER_DEAD = 1,      // the reader no longer exists
    KL_STOP_READER_ASKED = 2,     // control.stop was set
    KL_STOP_TOO_MANY_THREADS = 3, // all KL_RING_MAX rings are owned
    KL_STOP_DISK_FULL = 4,        // the file of a recording without `keel record` cannot grow
    KL_STOP_PROGRAM = 5,          // kl_record_stop
    KL_STOP_TOO_MANY_SAMPLES = 6  // no room for the address of another live sample
};

enum kl_clock { KL_CLOCK_TSC = 0, KL_CLOCK_MONOTONIC = 1 };

// The session's `control` file.
#define KL_NOTES_BYTES (KL_PAGE_BYTES - 100u)
struct kl_control {
    uint64_t magic;
    uint32_t version;
    uint32_t clock;             // enum kl_clock
    uint32_t follow;            // 1: every process of the tree is recorded; 0: only root_pid
    uint32_t root_pid;          // the program
    uint32_t reader_pid;        // `keel record`
    _Atomic uint32_t stop;      // 1: stop recording
    _Atomic uint64_t heartbeat; // the reader increments it in every round
    _Atomic uint32_t bell;      // futex: incremented to wake the reader
    _Atomic uint32_t sleeping;  // 1: the reader sleeps
    _Atomic uint32_t spools;    // number of spools created so far
    _Atomic uint32_t failed;    // the errno of a process that could not create its spool; 0: none
    uint32_t stacks;            // return addresses to record for each call; 0: only the caller
    uint32_t embedded;          // 1: the program reports its calls (keel/recorder.h); 0: malloc
    uint64_t sample_bytes;      // the mean distance of samples; 0: every call is recorded
    uint64_t sample_seed;       // of the random numbers that choose them
    uint64_t slow_ticks;        // calls that take at least so long are slow; 0: calls are not timed
    uint64_t patches;           // number of structures in the file of journal/patches.h; 0: no file
    // Bytes of `notes` that are claimed. A line that does not fit is counted only.
    _Atomic uint32_t noted;
    // The lines of processes that cannot open KL_EXECUTED_NAME; 0: not written yet.
    _Atomic uint8_t notes[KL_NOTES_BYTES];
};
static_assert(sizeof(struct kl_control) == KL_PAGE_BYTES, "as in ring.rs");
static_assert(offsetof(struct kl_control, heartbeat) == 32, "as in ring.rs");

// The file of a recording without `keel record` (keel/recorder.h): a struct kl_spool with magic
// KL_LOG_MAGIC, then chunks, each a struct kl_log_chunk followed by `bytes` bytes. The rings are in
// a second file beside it, NAME.rings, with the layout of a spool. The recording threads write
// their own rings out as chunks. NAME.rings is removed when the recording ends; after a crash it
// holds the last events.
#define KL_LOG_MAGIC 0x314c4f4f50534c4bull   // "KLSPOOL1"
#define KL_CHUNK_MAGIC 0x314b4e5548434c4bull // "KLCHUNK1"

enum kl_chunk_kind {
    KL_CHUNK_EVENTS = 1, // slots of ring `ring`, from index `first` on
    KL_CHUNK_MAPS = 2,   // object files, as in /proc/self/maps
    KL_CHUNK_END = 3     // the recording ended normally; no bytes
};

struct kl_log_chunk {
    uint64_t magic;
    uint32_t kind; // enum kl_chunk_kind
    uint32_t ring;
    uint64_t first;
    uint64_t bytes;         // that follow
    uint64_t ticks;         // a time on the recording's clock,
    uint64_t raw_ns;        // and the same time on CLOCK_MONOTONIC_RAW
    uint64_t stalls;        // how often this ring's thread wrote it out while it recorded,
    uint64_t stalled_ticks; // and the total time of that
};
static_assert(sizeof(struct kl_log_chunk) == 64, "as in log.rs");

// Rings in the spool: large ones first.
static inline uint32_t kl_ring_slots(uint32_t index) {
    if (index < KL_LARGE_RINGS) return KL_LARGE_RING_SLOTS;
    if (index < KL_MIDDLE_RINGS) return KL_MIDDLE_RING_SLOTS;
    return index < KL_SMALL_RINGS ? KL_SMALL_RING_SLOTS : KL_LEAST_RING_SLOTS;
}

// When only so many rings have not been taken yet, more of them are needed soon.
static inline uint32_t kl_rings_ahead(uint32_t prepared) {
    return 2 + (prepared < 1024 ? prepared : 1024) / 8;
}

static inline uint64_t kl_ring_bytes(uint32_t slots) {
    return KL_PAGE_BYTES + (uint64_t)slots * sizeof(struct kl_ring_slot);
}

static inline struct kl_ring_slot* kl_ring_first_slot(struct kl_ring* ring) {
    return (struct kl_ring_slot*)(ring + 1);
}

static inline uint64_t kl_ring_offset(uint32_t index) {
    uint32_t large = index < KL_LARGE_RINGS ? index : KL_LARGE_RINGS;
    uint32_t middle = index < KL_MIDDLE_RINGS ? index - large : KL_MIDDLE_RINGS - KL_LARGE_RINGS;
    uint32_t before = large + middle;
    uint32_t small = index < KL_SMALL_RINGS ? index - before : KL_SMALL_RINGS - KL_MIDDLE_RINGS;
    uint32_t least = index - before - small;
    return KL_SPOOL_RINGS + large * kl_ring_bytes(KL_LARGE_RING_SLOTS) +
           middle * kl_ring_bytes(KL_MIDDLE_RING_SLOTS) +
           small * kl_ring_bytes(KL_SMALL_RING_SLOTS) + least * kl_ring_bytes(KL_LEAST_RING_SLOTS);
}

// The tag of the lap of `index`; shift = log2 of the number of slots.
static inline uint64_t kl_ring_tag(uint64_t index, unsigned shift) {
    return ((index >> shift) + 1) & 0xff;
}

#endif
