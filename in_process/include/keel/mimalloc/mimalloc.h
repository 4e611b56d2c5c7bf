/* For `#include <mimalloc.h>`: see keel/mimalloc.h. */
#include "keel/mimalloc.h"
