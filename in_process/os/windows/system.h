// The functions of Windows, without the names of its header that other headers of Keel use.
#ifndef KEEL_OS_WINDOWS_SYSTEM_H
#define KEEL_OS_WINDOWS_SYSTEM_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#endif
