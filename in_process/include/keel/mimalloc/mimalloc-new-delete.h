/* For `#include <mimalloc-new-delete.h>` in one source file of a program: see
 * keel/keel-new-delete.h. */
#include "keel/keel-new-delete.h"
