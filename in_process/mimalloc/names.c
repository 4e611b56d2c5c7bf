/* libkeel_mimalloc.a: the functions of keel/mimalloc.h as symbols, for what calls mimalloc without that header: code
 * that was compiled against mimalloc's own, and other languages (Rust's crate libmimalloc-sys). The header is their
 * only definition: here its `static inline` functions are read as plain ones.
 *
 * Nothing else is in it. What it calls, kl_*, comes from the libkeel or libkeel_api that is linked behind it, so that a
 * process has one heap whichever way it was reached. */

/* All that keel/mimalloc.h includes, before the two words below lose their meaning. */
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

/* The header's own helpers, keel_mi_*, become visible here too; the build makes them local. */
#pragma GCC visibility push(default)
#define static
#define inline
#include "keel/mimalloc.h"
