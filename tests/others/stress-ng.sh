#!/usr/bin/env bash
# The stressors of stress-ng that allocate, with --verify: stress-ng.sh - PLACE. Each does a fixed
# number of operations.
set -uo pipefail
place=$2
program=$(command -v stress-ng) || { echo "the package stress-ng is not installed"; exit 1; }

stressor() { # stressor NAME OPERATIONS [OPTION ...]
    cat >"$place/tests/${4:-$1}" <<TEST
#!/bin/sh
exec $program --verify --oomable --temp-path . --timeout 200 --$1 2 --$1-ops $2 ${3:-}
TEST
    chmod +x "$place/tests/${4:-$1}"
}
stressor malloc 200000
stressor malloc 100000 "--malloc-pthreads 4" malloc-threads
stressor malloc 20000 "--malloc-bytes 4M --malloc-max 256 --malloc-touch" malloc-large
stressor malloc 50000 "--malloc-zerofree --malloc-touch" malloc-zerofree
stressor bigheap 3000
stressor brk 100000
for name in bsearch hsearch lsearch tsearch qsort; do stressor "$name" 20; done
for name in heapsort mergesort radixsort shellsort; do stressor "$name" 5; done
for name in list tree skiplist judy hash; do stressor "$name" 100; done
stressor randlist 20
for name in matrix matrix-3d vecmath zlib str wcs; do stressor "$name" 50; done
for name in pthread fork vfork clone; do stressor "$name" 400; done
# A stressor that this version does not have is left out.
for file in "$place"/tests/*; do
    name=$(sed -n 's/.* --\([a-z0-9-]*\)-ops .*/\1/p' "$file")
    grep -qx "$name" <("$program" --stressors | tr ' ' '\n') ||
        { basename "$file" >>"$place/left-out"; rm "$file"; }
done
