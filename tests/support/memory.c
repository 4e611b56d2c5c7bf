#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WHOLE_UP_TO = 64 * KIB, EDGE = KIB, PAGE = 4096 };

uint64_t random_next(struct random* random) {
    uint64_t z = (random->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t random_below(struct random* random, uint64_t below) {
    return random_next(random) % below; // the bias is below 2^-32 for every bound used here
}

size_t random_size(struct random* random, size_t most) {
    // Uniform in the logarithm, squared towards the small end: half of the sizes are below the
    // fourth root of `most`.
    double u = (double)(random_next(random) >> 11) / 9007199254740992.0;
    unsigned bits = 0;
    while ((most >> bits) > 1) bits++;
    unsigned magnitude = (unsigned)(u * u * (double)(bits + 1));
    size_t size = ((size_t)1 << magnitude) + (size_t)random_below(random, (uint64_t)1 << magnitude);
    return size > most ? most : size;
}

static uint64_t word_at(uint64_t seed, size_t offset) {
    return (seed ^ offset) * 0xD6E8FEB86659FD93u + offset;
}

static void fill_range(unsigned char* block, size_t from, size_t to, uint64_t seed) {
    for (; from + 8 <= to; from += 8) {
        uint64_t word = word_at(seed, from);
        memcpy(block + from, &word, 8);
    }
    uint64_t word = word_at(seed, from);
    if (from < to) memcpy(block + from, &word, to - from);
}

static bool range_holds(const unsigned char* block, size_t from, size_t to, uint64_t seed) {
    for (; from + 8 <= to; from += 8) {
        uint64_t word = word_at(seed, from);
        if (memcmp(block + from, &word, 8) != 0) return false;
    }
    uint64_t word = word_at(seed, from);
    return from >= to || memcmp(block + from, &word, to - from) == 0;
}

// Where the filled tail of a sparse block begins: a multiple of 8, so that its words do not depend
// on the size.
static size_t tail_of(size_t filled) {
    return (filled - EDGE) & ~(size_t)7;
}

void pattern_fill(void* block, size_t size, uint64_t seed) {
    if (size <= WHOLE_UP_TO) {
        fill_range(block, 0, size, seed);
        return;
    }
    fill_range(block, 0, EDGE, seed);
    for (size_t at = PAGE; at + 8 < tail_of(size); at += PAGE) fill_range(block, at, at + 8, seed);
    fill_range(block, tail_of(size), size, seed);
}

bool pattern_holds(const void* block, size_t size, size_t filled, uint64_t seed) {
    if (filled <= WHOLE_UP_TO) return range_holds(block, 0, size, seed);
    if (!range_holds(block, 0, size < EDGE ? size : EDGE, seed)) return false;
    for (size_t at = PAGE; at + 8 < tail_of(filled) && at + 8 <= size; at += PAGE) {
        if (!range_holds(block, at, at + 8, seed)) return false;
    }
    return size <= tail_of(filled) || range_holds(block, tail_of(filled), size, seed);
}

bool is_zero(const void* block, size_t size) {
    const unsigned char* bytes = block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        if (word != 0) return false;
    }
    for (; at < size; at++) {
        if (bytes[at] != 0) return false;
    }
    return true;
}

bool is_zero_between(const void* block, size_t from, size_t to) {
    return to <= from || is_zero((const char*)block + from, to - from);
}

bool is_aligned(const void* block, size_t alignment) {
    return ((uintptr_t)block & (alignment - 1)) == 0;
}

// Reads a file of /proc piece by piece and passes each piece to `use`.
static void read_proc(const char* path,
                      void (*use)(const char* piece, size_t length, size_t* result),
                      size_t* result) {
    char piece[4096];
    ssize_t length;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    while ((length = read(file, piece, sizeof piece - 1)) > 0) {
        piece[length] = 0;
        use(piece, (size_t)length, result);
    }
    close(file);
}

static void count_lines(const char* piece, size_t length, size_t* result) {
    for (size_t i = 0; i < length; i++) *result += piece[i] == '\n';
}

#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
// ThreadSanitizer stores several words for every word that was touched, in its own mappings below
// this address. The program's mappings are above it.
#define PROGRAM_MAPPINGS 0x7b0000000000ul

// Parses a line of smaps: a mapping's addresses or one of its attributes. result[0] is the sum,
// result[1] says whether this mapping counts.
static void add_rss(const char* line, size_t* result) {
    if (*line < 'A' || *line > 'Z')
        result[1] = strtoul(line, NULL, 16) >= PROGRAM_MAPPINGS;
    else if (result[1] && strncmp(line, "Rss:", 4) == 0)
        result[0] += (size_t)strtoul(line + 4, NULL, 10) * KIB;
}

size_t resident_bytes(void) {
    size_t result[2] = {0, 0};
    char text[8192];
    size_t held = 0;
    ssize_t length;
    int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    while ((length = read(file, text + held, sizeof text - 1 - held)) > 0) {
        held += (size_t)length;
        text[held] = 0;
        char* line = text;
        for (char* end; (end = strchr(line, '\n')) != NULL; line = end + 1) add_rss(line, result);
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    close(file);
    return result[0];
}
#else
static void find_rss(const char* piece, size_t length, size_t* result) {
    const char* line = strstr(piece, "Rss:");
    (void)length;
    if (line) *result = (size_t)strtoul(line + 4, NULL, 10) * KIB;
}

size_t resident_bytes(void) {
    size_t bytes = 0;
    read_proc("/proc/self/smaps_rollup", find_rss, &bytes);
    return bytes;
}
#endif

size_t map_count(void) {
    size_t count = 0;
    read_proc("/proc/self/maps", count_lines, &count);
    return count;
}

size_t physical_bytes(void) {
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

void sleep_ms(unsigned milliseconds) {
    struct timespec rest = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0) continue;
}
