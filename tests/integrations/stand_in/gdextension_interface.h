/* The part of Godot's gdextension_interface.h that integrations/memory/keel_godot.h uses: a
 * stand-in for tests, with the engine's names and signatures. */
#ifndef STAND_IN_GDEXTENSION_INTERFACE_H
#define STAND_IN_GDEXTENSION_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t GDExtensionBool;
typedef void (*GDExtensionInterfaceFunctionPtr)(void);
typedef GDExtensionInterfaceFunctionPtr (*GDExtensionInterfaceGetProcAddress)(const char* name);
typedef void* (*GDExtensionInterfaceMemAlloc)(size_t bytes);
typedef void* (*GDExtensionInterfaceMemRealloc)(void* block, size_t bytes);
typedef void (*GDExtensionInterfaceMemFree)(void* block);
typedef void* (*GDExtensionInterfaceMemAlloc2)(size_t bytes, GDExtensionBool pad_align);
typedef void* (*GDExtensionInterfaceMemRealloc2)(void* block, size_t bytes,
                                                 GDExtensionBool pad_align);
typedef void (*GDExtensionInterfaceMemFree2)(void* block, GDExtensionBool pad_align);

#endif
