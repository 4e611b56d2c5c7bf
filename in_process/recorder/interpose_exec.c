// Notices that a recorded process executes another program, or starts one in a child. The reader
// compares these programs with those that record themselves: a program without the recorder cannot
// report itself, and may have ended before anyone looks at it.
//
// The functions run between fork, or vfork, and exec, so they only make system calls and allocate
// nothing. `system` and `popen` execute a shell with the environment of the caller.
#include "base/attributes.h"
#include "session.h"
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

// Returns true if the program that gets this environment loads the recorder.
static bool environment_is_whole(char* const* variables) {
    static const char folder[] = KL_SESSION_VARIABLE "=";
    static const char preload[] = "LD_PRELOAD=";
    bool has_folder = false;
    bool has_recorder = false;
    for (; variables != NULL && *variables != NULL; variables++) {
        if (strncmp(*variables, folder, sizeof folder - 1) == 0) has_folder = true;
        if (strncmp(*variables, preload, sizeof preload - 1) == 0)
            has_recorder = strstr(*variables, "recorder.so") != NULL;
    }
    return has_folder && has_recorder;
}

static void note(const char* path, char* const* variables, bool in_child) {
    int saved_errno = errno;
    session_note_exec(environment_is_whole(variables) ? 'r' : 'c', path, in_child);
    errno = saved_errno;
}

// The file that a name without a slash means (execvp).
static void note_found(const char* name, char* const* variables, bool in_child) {
    enum { FOLDERS_MAX = 256 };
    const char* folders = getenv("PATH");
    if (folders == NULL) folders = "/bin:/usr/bin";
    if (strchr(name, '/') != NULL) folders = "";
    for (int i = 0; *folders != '\0' && i < FOLDERS_MAX; i++) {
        char path[4096];
        size_t length = strcspn(folders, ":");
        size_t name_bytes = strlen(name) + 1;
        if (length + 1 + name_bytes <= sizeof path) {
            memcpy(path, folders, length);
            path[length] = '/';
            memcpy(path + length + 1, name, name_bytes);
            if (access(path, X_OK) == 0) {
                note(path, variables, in_child);
                return;
            }
        }
        folders += length + (folders[length] == ':');
    }
    note(name, variables, in_child);
}

static int failed(int result, bool in_child) {
    int saved_errno = errno;
    session_note_exec('f', "", in_child);
    errno = saved_errno;
    return result;
}

static struct {
    __typeof__(&execve) execve;
    __typeof__(&execvpe) execvpe;
    __typeof__(&posix_spawn) posix_spawn;
    __typeof__(&posix_spawnp) posix_spawnp;
} after;

// In a forked child of a process with threads, dlsym might wait for a lock that nobody holds. So
// the functions are looked up before, unless a constructor of another library calls them earlier.
__attribute__((constructor)) static void functions_find(void) {
    if (after.posix_spawnp != NULL) return;
    after.execve = (__typeof__(&execve))dlsym(RTLD_NEXT, "execve");
    after.execvpe = (__typeof__(&execvpe))dlsym(RTLD_NEXT, "execvpe");
    after.posix_spawn = (__typeof__(&posix_spawn))dlsym(RTLD_NEXT, "posix_spawn");
    after.posix_spawnp = (__typeof__(&posix_spawnp))dlsym(RTLD_NEXT, "posix_spawnp");
}

KEEL_EXPORT int execve(const char* path, char* const* arguments, char* const* variables) {
    functions_find();
    note(path, variables, false);
    return failed(after.execve(path, arguments, variables), false);
}

KEEL_EXPORT int execv(const char* path, char* const* arguments) {
    return execve(path, arguments, environ);
}

KEEL_EXPORT int execvpe(const char* name, char* const* arguments, char* const* variables) {
    functions_find();
    note_found(name, variables, false);
    return failed(after.execvpe(name, arguments, variables), false);
}

KEEL_EXPORT int execvp(const char* name, char* const* arguments) {
    return execvpe(name, arguments, environ);
}

// Calls `function` with the arguments of execl in an array on the stack.
#define EXECUTE_LIST(first, ...)                                                                   \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    size_t count = 1;                                                                              \
    while (va_arg(list, char*) != NULL) count++;                                                   \
    va_end(list);                                                                                  \
    char* arguments[count + 1];                                                                    \
    va_start(list, first);                                                                         \
    arguments[0] = (char*)(uintptr_t)first;                                                        \
    for (size_t i = 1; i <= count; i++) arguments[i] = va_arg(list, char*);                        \
    __VA_ARGS__;                                                                                   \
    va_end(list)

KEEL_EXPORT int execl(const char* path, const char* first, ...) {
    EXECUTE_LIST(first, int result = execve(path, arguments, environ));
    return result;
}

KEEL_EXPORT int execlp(const char* name, const char* first, ...) {
    EXECUTE_LIST(first, int result = execvpe(name, arguments, environ));
    return result;
}

KEEL_EXPORT int execle(const char* path, const char* first, ...) {
    EXECUTE_LIST(first, char* const* variables = va_arg(list, char* const*);
                 int result = execve(path, arguments, variables));
    return result;
}

KEEL_EXPORT int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                            const posix_spawnattr_t* attributes, char* const* arguments,
                            char* const* variables) {
    functions_find();
    note(path, variables, true);
    int error = after.posix_spawn(pid, path, actions, attributes, arguments, variables);
    return error != 0 ? failed(error, true) : 0;
}

KEEL_EXPORT int posix_spawnp(pid_t* pid, const char* name,
                             const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const* arguments,
                             char* const* variables) {
    functions_find();
    note_found(name, variables, true);
    int error = after.posix_spawnp(pid, name, actions, attributes, arguments, variables);
    return error != 0 ? failed(error, true) : 0;
}
