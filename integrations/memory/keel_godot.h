/* keel_godot.h: a GDExtension of Godot 4.1 or newer allocates from Keel. It is tested with a
 * stand-in for gdextension_interface.h, not with the engine.
 *
 * Godot has no hook for its own allocations: they call malloc, so `LD_PRELOAD=libkeel.so godot`
 * replaces them. An extension receives its allocation functions from the engine by name. Pass the
 * bindings this function instead, and they receive those of Keel:
 *
 *     #include <gdextension_interface.h>
 *     #include "keel_godot.h"
 *
 *     GDExtensionBool entry(GDExtensionInterfaceGetProcAddress engine, ...) {
 *         godot::GDExtensionBinding::InitObject init(keel_godot_install(engine, NULL), ...);
 *
 * The extension then allocates what memnew and Memory::alloc_static of its bindings allocate. The
 * heap must live until the engine has unloaded the extension. */
#ifndef KEEL_GODOT_H
#define KEEL_GODOT_H

#include "keel_hooks.h"
#include <string.h>

static kl_heap_t* keel_godot_heap;
static GDExtensionInterfaceGetProcAddress keel_godot_engine;

KEEL_HOOK void* keel_godot_malloc(size_t size) {
    KEEL_HOOK_RETURN(keel_hook_malloc(keel_godot_heap, size));
}
KEEL_HOOK void* keel_godot_realloc(void* block, size_t size) {
    KEEL_HOOK_RETURN(keel_hook_realloc(keel_godot_heap, block, size));
}
KEEL_HOOK void keel_godot_free(void* block) {
    kl_free(block);
    KEEL_HOOK_STAYS;
}

/* mem_alloc2 and its family, since Godot 4.6. With `padded`, the caller uses 8 bytes before the
 * block: memnew_arr stores the number of elements there. 16 bytes keep the block aligned. */
enum { KEEL_GODOT_PAD = 16 };
KEEL_HOOK void* keel_godot_malloc_padded(size_t size, uint8_t padded) {
    size_t pad = padded ? KEEL_GODOT_PAD : 0;
    char* block =
        size <= SIZE_MAX - pad ? (char*)keel_hook_malloc(keel_godot_heap, size + pad) : NULL;
    KEEL_HOOK_RETURN(block != NULL ? block + pad : NULL);
}
KEEL_HOOK void* keel_godot_realloc_padded(void* block, size_t size, uint8_t padded) {
    size_t pad = padded ? KEEL_GODOT_PAD : 0;
    void* whole = block != NULL ? (char*)block - pad : NULL;
    char* resized = size <= SIZE_MAX - pad
                        ? (char*)keel_hook_realloc(keel_godot_heap, whole, size + pad)
                        : NULL;
    KEEL_HOOK_RETURN(resized != NULL ? resized + pad : NULL);
}
KEEL_HOOK void keel_godot_free_padded(void* block, uint8_t padded) {
    kl_free(block != NULL && padded ? (char*)block - KEEL_GODOT_PAD : block);
    KEEL_HOOK_STAYS;
}

/* A GDExtensionInterfaceGetProcAddress. */
KEEL_HOOK GDExtensionInterfaceFunctionPtr keel_godot_address(const char* name) {
    GDExtensionInterfaceFunctionPtr own = keel_godot_engine(name);
    if (own == NULL) return NULL; /* this engine is older than the function */
#define KEEL_GODOT_REPLACE(text, function)                                                         \
    if (strcmp(name, text) == 0) return (GDExtensionInterfaceFunctionPtr)(function)
    KEEL_GODOT_REPLACE("mem_alloc", keel_godot_malloc);
    KEEL_GODOT_REPLACE("mem_realloc", keel_godot_realloc);
    KEEL_GODOT_REPLACE("mem_free", keel_godot_free);
    KEEL_GODOT_REPLACE("mem_alloc2", keel_godot_malloc_padded);
    KEEL_GODOT_REPLACE("mem_realloc2", keel_godot_realloc_padded);
    KEEL_GODOT_REPLACE("mem_free2", keel_godot_free_padded);
#undef KEEL_GODOT_REPLACE
    return own;
}

static inline GDExtensionInterfaceGetProcAddress
keel_godot_install(GDExtensionInterfaceGetProcAddress engine, kl_heap_t* heap) {
    keel_godot_engine = engine;
    keel_godot_heap = heap;
    return keel_godot_address;
}

#endif
