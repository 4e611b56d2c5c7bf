/* libkeel_mimalloc.a: the functions of keel/mimalloc.h as symbols, for code that calls mimalloc
 * without that header: code compiled against mimalloc's own header, and other languages (Rust's
 * crate libmimalloc-sys). The header is the only definition; this file compiles its `static inline`
 * functions as ordinary ones.
 *
 * The library contains nothing else. The kl_* functions that it calls come from the libkeel or
 * libkeel_api that is linked after it, so a process has one heap. */

/* Everything that keel/mimalloc.h includes, before `static` and `inline` are redefined. */
#include "keel/arena.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include "keel/runtime.h"
#include "keel/statistics.h"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* The header's helpers, keel_mi_*, become global here as well; the build makes them local again. */
#pragma GCC visibility push(default)
#define static
#define inline
#include "keel/mimalloc.h"
