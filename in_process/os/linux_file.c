#include "os/call.h"
#include "os/confined.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>

int os_file_open(const char* path) {
    if (!os_may_open()) return -1;
    intptr_t file = os_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return os_call_failed(file) ? -1 : (int)file;
}

void os_file_close(int file) {
    (void)os_call(SYS_close, file);
}

size_t os_file_read_open(int file, char* buffer, size_t bytes) {
    size_t length = 0;
    while (length < bytes) {
        intptr_t count = os_call(SYS_read, file, buffer + length, bytes - length);
        if (count == -EINTR) continue;
        if (count <= 0) break;
        length += (size_t)count;
    }
    return length;
}

bool os_file_read_at(int file, void* buffer, size_t bytes, uint64_t offset) {
    return os_call(SYS_pread64, file, buffer, bytes, offset) == (intptr_t)bytes;
}

bool os_file_read(const char* path, char* buffer, size_t bytes) {
    size_t length = 0;
    int file = os_file_open(path);
    if (file >= 0) {
        length = os_file_read_open(file, buffer, bytes - 1);
        os_file_close(file);
    }
    buffer[length] = '\0';
    return length > 0;
}
