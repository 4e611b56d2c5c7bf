#include "allocator/space/queue_rows.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"

KEEL_LARGER struct page_map page_map;
KEEL_LARGE struct windows windows;
KEEL_TLS unsigned thread_partition;

#define METADATA_BYTES (WINDOW_HEADER_BYTES + PAGE_PARTS * PAGE_PART_DISTANCE)
#define PART_PAGES_BYTES (WINDOW_PART_BYTES / SLICE_BYTES * sizeof(struct page))
#define PART_AREAS_BYTES (WINDOW_PART_BYTES / SUPERBLOCK_BYTES * QUEUE_AREA_BYTES)

static atomic_word* offset_of(const void* address) {
    return &page_map.offset[(uint16_t)((uintptr_t)address >> WINDOW_SHIFT)];
}

static struct window* window_of_offset(uintptr_t offset) {
    KEEL_ASSERT(offset != 0);
    return (struct window*)((char*)page_map.dummy + offset - WINDOW_HEADER_BYTES);
}

struct window* window_find(const void* address) {
    uintptr_t offset = atomic_get_acquire(offset_of(address));
    return offset == 0 ? NULL : window_of_offset(offset);
}

void windows_prepare(void) {
    // A system page that is read first, by the first search, takes two page faults.
    (void)atomic_or_ordered(&windows.with[0][SET_RUNS].summary, 0);
    uintptr_t start = round_up((uintptr_t)page_map.dummy, os_page_bytes());
    uintptr_t end = round_down((uintptr_t)page_map.dummy + sizeof page_map.dummy, os_page_bytes());
    os_forbid_writing((void*)start, end - start);
}

// --- Metadata ------------------------------------------------------------------------------------

// Maps the rows for the queues of one part, between guards. Two threads may do so at once.
static bool part_add_rows(struct window* window, unsigned part) {
    KEEL_ASSERT(KEEL_SECURE && part < WINDOW_PARTS);
    size_t bytes = PART_AREAS_BYTES + QUEUE_AREA_BYTES;
    char* mapping = os_map_guarded(bytes);
    if (mapping == NULL) return false;
    os_forbid_huge_pages(mapping, bytes);
    uintptr_t none = 0;
    uintptr_t areas = round_up((uintptr_t)mapping, QUEUE_AREA_BYTES);
    if (!atomic_try_word(&window->queues[part], &none, areas)) os_unmap_guarded(mapping, bytes);
    return true;
}

// Makes the metadata of one part writable. Two threads may do so at once.
static bool part_describe(struct window* window, unsigned part) {
    KEEL_ASSERT(part < WINDOW_PARTS);
    uintptr_t bit = (uintptr_t)1 << part;
    if ((atomic_get_acquire(&window->described) & bit) != 0) return true;
    size_t bytes = PART_PAGES_BYTES;
    char* pages = (char*)window + WINDOW_HEADER_BYTES + part * bytes;
    for (unsigned i = part == 0 ? 1 : 0; i < PAGE_PARTS; i++) { // window_make has done the first
        if (!os_allow_writing(pages + i * PAGE_PART_DISTANCE, bytes)) return false;
    }
    if (KEEL_SECURE && !part_add_rows(window, part)) return false;
    uintptr_t described = atomic_get(&window->described);
    while (!atomic_try_word(&window->described, &described, described | bit)) continue;
    KEEL_ASSERT(!KEEL_SECURE || atomic_get(&window->queues[part]) % QUEUE_AREA_BYTES == 0);
    return true;
}

// In the secure flavour with a page before and a page behind that cannot be accessed.
static char* metadata_map(void) {
    size_t guard = KEEL_SECURE ? os_page_bytes() : 0;
    char* whole = os_map_readable(METADATA_BYTES + 2 * guard);
    if (whole == NULL || !KEEL_SECURE) return whole;
    os_guard_unused(whole, guard);
    os_guard_unused(whole + guard + METADATA_BYTES, guard);
    return whole + guard;
}

static void metadata_unmap(char* metadata) {
    KEEL_ASSERT(metadata != NULL && (uintptr_t)metadata % os_page_bytes() == 0);
    size_t guard = KEEL_SECURE ? os_page_bytes() : 0;
    os_unmap(metadata - guard, METADATA_BYTES + 2 * guard);
}

static struct window* window_make(const void* address) {
    char* metadata = metadata_map();
    if (metadata == NULL) return NULL;
    os_forbid_huge_pages(metadata, METADATA_BYTES);
    struct window* window = (struct window*)metadata;
    KEEL_ASSERT(window->base == NULL && atomic_get(&window->described) == 0);
    if (!os_allow_writing(metadata, WINDOW_HEADER_BYTES + PART_PAGES_BYTES)) {
        metadata_unmap(metadata);
        return NULL;
    }
    window->base = (char*)round_down((uintptr_t)address, WINDOW_BYTES);

    uintptr_t expected = 0;
    uintptr_t offset = (uintptr_t)(metadata + WINDOW_HEADER_BYTES) - (uintptr_t)page_map.dummy;
    if (!atomic_try_word(offset_of(address), &expected, offset)) { // another thread was first
        metadata_unmap(metadata);
        return window_of_offset(expected);
    }
    return window;
}

uint16_t* window_own_row(const void* page) {
    KEEL_ASSERT(KEEL_SECURE && window_find(page) != NULL && (uintptr_t)page % SLICE_BYTES == 0);
    size_t offset = (uintptr_t)page % WINDOW_BYTES;
    uintptr_t areas = atomic_get_acquire(&window_find(page)->queues[offset / WINDOW_PART_BYTES]);
    size_t area = offset % WINDOW_PART_BYTES / SUPERBLOCK_BYTES;
    KEEL_ASSERT(areas != 0 && areas % QUEUE_AREA_BYTES == 0);
    const uint16_t* bits = (const uint16_t*)(areas + area * QUEUE_AREA_BYTES);
    return queue_row_of_slice(bits, page);
}

static unsigned part_of(const void* address) {
    return (unsigned)((uintptr_t)address % WINDOW_BYTES / WINDOW_PART_BYTES);
}

struct window* window_for(const void* address) {
    KEEL_ASSERT(address_is_possible(address));
    struct window* window = window_find(address);
    if (window == NULL) window = window_make(address);
    if (window == NULL) return NULL;
    KEEL_ASSERT((uintptr_t)window->base == round_down((uintptr_t)address, WINDOW_BYTES));
    return part_describe(window, part_of(address)) ? window : NULL;
}

bool window_describes(const void* address) {
    const struct window* window = window_find(address);
    return window != NULL && (atomic_get_acquire(&window->described) >> part_of(address) & 1) != 0;
}

static struct superblock* superblock_at(const void* address) {
    struct window* window = window_find(address);
    if (window == NULL) return NULL;
    return &window->superblocks[(uintptr_t)address % WINDOW_BYTES / SUPERBLOCK_BYTES];
}
static uint64_t slice_bit(const void* address) {
    return UINT64_C(1) << ((uintptr_t)address / SLICE_BYTES % SUPERBLOCK_SLICES);
}

bool window_owns(const void* address) {
    struct superblock* superblock = superblock_at(address);
    return superblock != NULL && (atomic_get(&superblock->open) & slice_bit(address)) != 0;
}

bool window_is_free(const void* address) {
    struct superblock* superblock = superblock_at(address);
    return superblock != NULL && (atomic_get(&superblock->free) & slice_bit(address)) != 0;
}

// Claims a window for a partition. False: it is another one's.
static bool window_claim(struct window* window, unsigned partition) {
    KEEL_ASSERT(partition < PARTITION_COUNT);
    uintptr_t none = 0;
    return atomic_try_word(&window->partition, &none, partition + 1) || none == partition + 1;
}

// Enters the window into the list that allocation searches, once: the list is filled from its first
// entry on, so two threads that enter the same window meet at the same entry, and only one of them
// fills it. False: the list is full.
static bool window_list(struct window* window) {
    KEEL_ASSERT(!KEEL_SECURE || atomic_get(&window->partition) != 0);
    uintptr_t first = atomic_get(&window->number); // 0 until it is listed
    if (first != 0 && atomic_get_acquire(&windows.entry[first]) != (uintptr_t)window) first = 0;
    for (uintptr_t i = first; i < WINDOWS_MAX; i++) {
        uintptr_t entry = 0;
        if (atomic_try_word(&windows.entry[i], &entry, (uintptr_t)window))
            entry = (uintptr_t)window;
        if (entry != (uintptr_t)window) continue;
        atomic_set(&window->number, i);
        // Also for who finds it there: it may not be counted yet.
        uintptr_t count = atomic_get(&windows.count);
        while (count <= i && !atomic_try_word(&windows.count, &count, i + 1)) continue;
        return true;
    }
    return false;
}

// --- Sets ----------------------------------------------------------------------------------------

void window_set_add_range(struct window* window, unsigned set, unsigned index, unsigned count) {
    KEEL_ASSERT(set < WINDOW_SETS && count > 0 && count <= WINDOW_SUPERBLOCKS - index);
    index_set_add_range(window_set(window, set), index, count);
    (void)index_set_add(window_with(window, set), (unsigned)atomic_get(&window->number));
}

// By the protocol of index_set.h.
void window_forget(struct window* window, unsigned set) {
    KEEL_ASSERT(set < WINDOW_SETS);
    struct index_set* with = window_with(window, set);
    unsigned number = (unsigned)atomic_get(&window->number);
    KEEL_ASSERT(number < WINDOWS_MAX && window_at(number) == window);
    (void)index_set_remove(with, number);
    if (atomic_get_ordered(&window_set(window, set)->summary) != 0)
        (void)index_set_add(with, number);
}

// --- Pieces --------------------------------------------------------------------------------------

#define SCARCE_DIVISOR 256u
atomic_state window_space_scarce;
static atomic_bits superblocks_mapped; // without units of the huge zone

// The program may change the limit at any time, so it is read each time. UINT64_MAX: there is none.
bool window_space_is_limited(void) {
    return os_address_space_limit() != UINT64_MAX;
}

static void scarcity_note(unsigned superblocks) {
    KEEL_ASSERT(superblocks > 0);
    uint64_t before = atomic_add(&superblocks_mapped, superblocks);
    uint64_t mapped = (before + superblocks) * SUPERBLOCK_BYTES;
    uint64_t limit = os_address_space_limit();
    bool scarce = mapped > limit / SCARCE_DIVISOR;
    if (scarce != space_is_scarce()) atomic_set(&window_space_scarce, scarce);
}

// Makes superblocks of Keel's memory available. The part of each must be described.
static void superblocks_open(struct window* window, unsigned index, unsigned count) {
    KEEL_ASSERT(count > 0 && count <= WINDOW_SUPERBLOCKS - index);
    KEEL_ASSERT(atomic_get(&windows.entry[atomic_get(&window->number)]) == (uintptr_t)window);
    for (unsigned i = index; i < index + count; i++) {
        KEEL_ASSERT(atomic_get(&window->superblocks[i].open) == 0);
        KEEL_ASSERT(atomic_get(&window->superblocks[i].free) == 0);
        atomic_set(&window->superblocks[i].open, ~UINT64_C(0));
        (void)atomic_or_ordered(&window->superblocks[i].free, ~UINT64_C(0));
    }
    for (unsigned bucket = 0; bucket < RUN_BUCKETS; bucket++)
        window_set_add_range(window, SET_RUNS + bucket, index, count);
}

// Makes mapped, superblock-aligned memory available to the thread's partition. Superblocks whose
// window cannot be made, or is another partition's, are left out.
static bool range_open(char* start, size_t bytes) {
    KEEL_ASSERT((uintptr_t)start % SUPERBLOCK_BYTES == 0);
    KEEL_ASSERT(bytes > 0 && bytes % SUPERBLOCK_BYTES == 0);
    unsigned opened = 0;
    for (size_t at = 0; at < bytes; at += SUPERBLOCK_BYTES) {
        struct window* window = window_for(start + at);
        if (window == NULL || !window_claim(window, partition_now()) || !window_list(window))
            continue;
        superblocks_open(window,
                         (unsigned)((uintptr_t)(start + at - window->base) / SUPERBLOCK_BYTES), 1);
        opened++;
    }
    if (opened > 0) scarcity_note(opened); // once: it is a system call
    return opened > 0;
}

// For each partition: where the next piece of the window chosen last begins; the middle of a
// window: nowhere.
KEEL_ALIGNED(KEEL_CACHE_LINE) static atomic_word next_pieces[PARTITION_COUNT];
static atomic_word* next_piece(void) {
    KEEL_ASSERT(partition_now() < PARTITION_COUNT);
    return &next_pieces[partition_now()];
}

static uintptr_t lower_half_end(uintptr_t address) {
    return round_down(address, WINDOW_BYTES) + HUGE_ZONE_FIRST * SUPERBLOCK_BYTES;
}

static bool nothing_left(uintptr_t next) {
    return next == 0 || next == lower_half_end(next);
}

// The number of superblocks that make room for `needed` adjacent ones within one word of the sets:
// the search for a run of several superblocks looks at each word alone.
static unsigned superblocks_for_run(unsigned index, unsigned needed) {
    KEEL_ASSERT(index < HUGE_ZONE_FIRST && needed > 0);
    unsigned to_word_end = 64 - index % 64;
    return needed > to_word_end ? to_word_end + needed : needed;
}

// The number of superblocks to map at `next`: an eighth of what the window has, so that a small
// program has few, or what a run needs.
static unsigned piece_superblocks(uintptr_t next, unsigned needed, bool only_needed) {
    KEEL_ASSERT(next != 0 && next % SUPERBLOCK_BYTES == 0);
    unsigned index = (unsigned)(next % WINDOW_BYTES / SUPERBLOCK_BYTES);
    unsigned count = only_needed ? 1 : index / 8 + 1;
    if (count > PIECE_SUPERBLOCKS) count = PIECE_SUPERBLOCKS;
    needed = superblocks_for_run(index, needed);
    if (count < needed) count = needed;
    KEEL_ASSERT(count > 0);
    return count < HUGE_ZONE_FIRST - index ? count : HUGE_ZONE_FIRST - index;
}

enum piece {
    PIECE_OPENED,
    PIECE_NONE,    // another thread was faster
    PIECE_TAKEN,   // other code has mapped some of it
    PIECE_REFUSED, // the system has no memory
};

// Opens the next piece, if `next` is where it begins.
static enum piece piece_open_at(uintptr_t next, unsigned superblocks, bool only_needed) {
    KEEL_ASSERT(superblocks > 0 && !nothing_left(next));
    unsigned count = piece_superblocks(next, superblocks, only_needed);
    uintptr_t after = next + count * SUPERBLOCK_BYTES;
    KEEL_ASSERT(after <= lower_half_end(next));
    uintptr_t expected = next;
    if (!atomic_try_word(next_piece(), &expected, after)) return PIECE_NONE;
    enum os_placing placing = os_map_at((void*)next, count * SUPERBLOCK_BYTES);
    if (placing == OS_PLACED) {
        os_forbid_huge_pages((void*)next, count * SUPERBLOCK_BYTES);
        if (range_open((char*)next, count * SUPERBLOCK_BYTES)) return PIECE_OPENED;
        os_unmap((void*)next, count * SUPERBLOCK_BYTES);
    }
    // Where memory was refused, a later piece may begin. A window in which other code maps memory
    // is left for another one. If a thread has gone on meanwhile, only address space is left out.
    bool taken = placing == OS_TAKEN;
    expected = after;
    (void)atomic_try_word(next_piece(), &expected, taken ? lower_half_end(next) : next);
    return taken ? PIECE_TAKEN : PIECE_REFUSED;
}

// Opens a piece of the lower half of the window chosen last. PIECE_NONE: nothing is left of it.
static enum piece piece_open(unsigned superblocks, bool only_needed) {
    for (unsigned tries = 0; tries < 8; tries++) {
        uintptr_t next = atomic_get_acquire(next_piece());
        if (nothing_left(next)) return PIECE_NONE;
        enum piece piece = piece_open_at(next, superblocks, only_needed);
        if (piece != PIECE_NONE) return piece;
    }
    return PIECE_OPENED; // by other threads
}

// --- Choosing a window ---------------------------------------------------------------------------

// Windows chosen at random lie where the system maps nothing unless asked to: from 17 to 64 TiB.
#define RANDOM_FIRST ((uintptr_t)17 << 40)
#define RANDOM_END ((uintptr_t)64 << 40)

static uintptr_t random_place(void) {
    uint64_t random = os_random() % ((RANDOM_END - RANDOM_FIRST) / WINDOW_BYTES);
    KEEL_ASSERT(random < WINDOW_COUNT);
    return RANDOM_FIRST + random * WINDOW_BYTES;
}

// Below what the system has mapped last: for a small address space, such as that of arm64 with 39
// bits, or one in which a tool has reserved the rest.
static uintptr_t system_place(void) {
    char* place = os_find_place(2 * WINDOW_BYTES);
    return place == NULL ? 0 : round_up((uintptr_t)place, WINDOW_BYTES);
}

// As window_find. Writes, as windows_prepare does.
static bool window_exists(const void* address) {
    uintptr_t none = 0;
    return !atomic_try_word(offset_of(address), &none, 0);
}

// Maps the first superblock of the window at `place` and makes the window the one to take pieces
// from, unless another thread has done so since `exhausted` was read.
static enum piece window_choose_at(uintptr_t place, uintptr_t exhausted) {
    KEEL_ASSERT(place % WINDOW_BYTES == 0);
    char* start = (char*)place;
    if (place == 0 || window_exists(start)) return PIECE_TAKEN;
    enum os_placing placing = os_map_at(start, SUPERBLOCK_BYTES);
    if (placing != OS_PLACED) return placing == OS_TAKEN ? PIECE_TAKEN : PIECE_REFUSED;
    os_forbid_huge_pages(start, SUPERBLOCK_BYTES);
    struct window* window = window_for(start);
    bool usable = window != NULL && window_claim(window, partition_now());
    if (!usable || !atomic_try_word(next_piece(), &exhausted, place + SUPERBLOCK_BYTES)) {
        os_unmap(start, SUPERBLOCK_BYTES);
        if (window == NULL) return PIECE_REFUSED;
        return usable ? PIECE_NONE : PIECE_TAKEN;
    }
    if (!window_list(window)) return PIECE_REFUSED; // before anything of it is open
    superblocks_open(window, 0, 1);
    scarcity_note(1);
    if (partition_now() != 0) return PIECE_OPENED;
    atomic_set(&window->chosen, 1);
    window_set_add_range(window, SET_CLOSED, HUGE_ZONE_FIRST, WINDOW_SUPERBLOCKS - HUGE_ZONE_FIRST);
    return PIECE_OPENED;
}

// Chooses a window and opens its first superblock. False: the system refuses all places.
static bool window_choose(void) {
    uintptr_t exhausted = atomic_get_acquire(next_piece());
    if (!nothing_left(exhausted)) return true; // another thread has just chosen one
    enum piece piece = PIECE_TAKEN;
    if (exhausted != 0) {
        uintptr_t following = round_up(exhausted, WINDOW_BYTES);
        piece = window_choose_at(following, exhausted);
    }
    for (unsigned i = 0; i < 2 && (piece == PIECE_TAKEN || piece == PIECE_REFUSED); i++)
        piece = window_choose_at(i == 0 ? random_place() : system_place(), exhausted);
    return piece == PIECE_OPENED || piece == PIECE_NONE;
}

// --- Growing -------------------------------------------------------------------------------------

// Maps superblocks anywhere.
static bool grow_anywhere(unsigned superblocks) {
    KEEL_ASSERT(superblocks > 0 && superblocks <= WINDOW_GROW_MAX);
    size_t bytes = superblocks * SUPERBLOCK_BYTES;
    char* start = os_map(bytes, SUPERBLOCK_BYTES);
    if (start == NULL) return false;
    os_forbid_huge_pages(start, bytes);
    if (range_open(start, bytes)) return true;
    os_unmap(start, bytes);
    return false;
}

bool window_grow(unsigned superblocks) {
    KEEL_ASSERT(superblocks > 0 && superblocks <= WINDOW_GROW_MAX);
    for (unsigned round = 0; round < 2; round++) {
        enum piece piece = piece_open(superblocks, false);
        if (piece == PIECE_REFUSED) piece = piece_open(superblocks, true);
        if (piece == PIECE_OPENED) return true;
        if (piece == PIECE_REFUSED || round > 0) break;
        if (!window_choose()) break;
        if (superblocks == 1) return true;
    }
    // Other partitions have memory in these windows.
    return partition_now() == 0 && grow_anywhere(superblocks);
}

bool window_grow_at(const char* start, unsigned superblocks) {
    KEEL_ASSERT((uintptr_t)start % SUPERBLOCK_BYTES == 0 && superblocks > 0);
    uintptr_t next = atomic_get_acquire(next_piece());
    if (next != (uintptr_t)start || nothing_left(next)) return false;
    return piece_open_at((uintptr_t)start, superblocks, false) == PIECE_OPENED;
}
