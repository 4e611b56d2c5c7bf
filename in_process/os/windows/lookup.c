// Names: of functions, and of files.
#include "os/process.h"
#include "os/windows/system.h"
#include <errno.h>
#include <limits.h>

// Windows has no order of look-up: a program's reference names the module, too.
void* os_symbol(const char* name) {
    (void)name;
    return NULL;
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
        return ENOENT;
    case ERROR_ACCESS_DENIED:
        return EACCES;
    default:
        return EINVAL;
    }
}

// Symbolic links stay as they are.
char* os_real_path(const char* path, char* resolved) {
    DWORD saved = GetLastError();
    int error = 0;
    DWORD length = path == NULL ? 0 : GetFullPathNameA(path, PATH_MAX, resolved, NULL);
    if (path == NULL)
        error = EINVAL;
    else if (length >= PATH_MAX)
        error = ENAMETOOLONG;
    else if (length == 0 || GetFileAttributesA(resolved) == INVALID_FILE_ATTRIBUTES)
        error = error_of_path(GetLastError());
    SetLastError(saved);
    if (error == 0) return resolved;
    errno = error;
    return NULL;
}
