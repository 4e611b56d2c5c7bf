// Names: of functions, and of files.
#include "os/process.h"
#include "os/windows/system.h"
#include <errno.h>
#include <limits.h>
#include <string.h>

// Windows has no order of look-up: a program's reference names the module, too.
void* os_symbol(const char* name) {
    (void)name;
    return NULL;
}

void* os_function(const char* name) {
    return os_symbol(name);
}

void* os_next_symbol(const char* name) {
    (void)name;
    return NULL;
}

static int error_of_path(DWORD error) {
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return EACCES;
    case ERROR_CANT_RESOLVE_FILENAME:
        return ELOOP;
    default:
        return EINVAL;
    }
}

// Windows states the name of an open file as \\?\C:\folder\file or \\?\UNC\server\folder\file.
static const char* without_prefix(char* name) {
    if (strncmp(name, "\\\\?\\UNC\\", 8) == 0) {
        name[6] = '\\';
        return name + 6;
    }
    return strncmp(name, "\\\\?\\", 4) == 0 ? name + 4 : name;
}

// 0, or an error as of errno.
static int read_real_path(const char* path, char* resolved) {
    char name[PATH_MAX + 8];
    HANDLE file = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL); // also a folder
    if (file == INVALID_HANDLE_VALUE) return error_of_path(GetLastError());
    DWORD length = GetFinalPathNameByHandleA(file, name, sizeof name, 0);
    DWORD error = GetLastError();
    CloseHandle(file);
    if (length == 0) return error_of_path(error);
    if (length >= sizeof name) return ENAMETOOLONG;
    const char* text = without_prefix(name);
    size_t bytes = strlen(text) + 1;
    if (bytes > PATH_MAX) return ENAMETOOLONG;
    memcpy(resolved, text, bytes);
    return 0;
}

char* os_real_path(const char* path, char* resolved) {
    DWORD saved = GetLastError();
    int error = path == NULL ? EINVAL : read_real_path(path, resolved);
    SetLastError(saved);
    if (error == 0) return resolved;
    errno = error;
    return NULL;
}
