#!/usr/bin/env bash
# A library behind the bridge sees the environment, also in a program that contains a copy of
# `environ`: bridge_settings.sh BRIDGE COMPILER
set -euo pipefail
bridge=$1 compiler=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Like mimalloc, it reads `environ` itself, when it is loaded.
cat >"$folder/library.c" <<'SOURCE'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void* __libc_malloc(size_t size);
void __libc_free(void* block);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t align, size_t size);
extern char** environ;
static int found;
__attribute__((constructor)) static void load(void) {
    for (char** one = environ; one != NULL && *one != NULL; one++)
        if (strcmp(*one, "SETTING=seen") == 0) found = 1;
}
void* s_malloc(size_t size) {
    if (!found) _exit(42);
    return __libc_malloc(size);
}
void s_free(void* block) { __libc_free(block); }
void* s_calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void* s_realloc(void* block, size_t size) { return __libc_realloc(block, size); }
void* s_memalign(size_t align, size_t size) { return __libc_memalign(align, size); }
SOURCE
cat >"$folder/program.c" <<'SOURCE'
#include <stdlib.h>
extern char** environ;
int main(void) {
    void* volatile block = malloc(environ != NULL ? 100 : 0);
    free(block);
    return block == NULL;
}
SOURCE
"$compiler" -shared -fPIC -o "$folder/library.so" "$folder/library.c"
# Without -fPIC the program's access to `environ` makes a copy.
"$compiler" -fno-pic -no-pie -o "$folder/program" "$folder/program.c"
status=0
SETTING=seen LD_PRELOAD="$bridge" KEEL_BRIDGE="prefix:s_:$folder/library.so" \
    "$folder/program" || status=$?
if [ "$status" -ne 0 ]; then
    echo "the library does not see the environment (exit code $status)" >&2
    exit 1
fi
echo "1 passed, 0 failed, 0 skipped"
