// libkeel_calls.so: the functions of the C library that may make a thread wait. Each calls the next
// definition and reports the call to the recorder (calls.h), which is preloaded, too. Calls inside
// of the C library do not come here: fwrite is one call of a file, whether or not it writes.
//
// A lock or a semaphore is tried first, and only a call that has to wait is reported. A wait for a
// condition or for the end of a thread always is. Programs that make futex calls themselves (Rust,
// std::atomic) do that through the function `syscall`.
#undef _FORTIFY_SOURCE
#include "base/atomic.h"
#include "calls.h"
#include "keel/recorder.h"
#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
// Macros in musl.
#undef open64
#undef openat64
#undef pread64
#undef pwrite64
#undef fopen64

// A function and its next definition. All are in one section, so that they can be looked up before
// a thread exists: in a forked child, dlsym might wait for a lock that nobody holds.
struct following {
    const char* name;
    atomic_word function;
};
extern struct following __start_keel_following[];
extern struct following __stop_keel_following[];
#define FOLLOWING(name)                                                                            \
    __attribute__((section("keel_following"), used)) static struct following next_##name = {#name, \
                                                                                            0}

// A lookup that fails allocates a message, and the recorder, which records that, makes calls of its
// own, which are looked up in turn. So only functions that have the version are asked for by it.
static void* find_next(const char* name) {
#if defined(__GLIBC__) && defined(__x86_64__)
    // The first versions of these functions do not know the present structure.
    if (strcmp(name, "pthread_cond_wait") == 0 || strcmp(name, "pthread_cond_timedwait") == 0)
        return dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
    return dlsym(RTLD_NEXT, name);
}

static uintptr_t find(struct following* following) {
    uintptr_t found = atomic_get_acquire(&following->function);
    if (found == 0) {
        found = (uintptr_t)find_next(following->name);
        atomic_set_release(&following->function, found);
    }
    return found;
}

// A program that gets this library without the recorder runs as before.
#pragma weak kl_record_call_begin
#pragma weak kl_record_call_end
#pragma weak kl_record_mark_now

static uint64_t call_begin(const void* caller) {
    return kl_record_call_begin != NULL ? kl_record_call_begin(caller) : 0;
}

static void call_end(const char* name, uint64_t began, const void* caller) {
    if (began != 0) kl_record_call_end(name, began, caller);
}

__attribute__((constructor)) static void find_all(void) {
    for (struct following* one = __start_keel_following; one < __stop_keel_following; one++)
        find(one);
    if (kl_record_mark_now != NULL) kl_record_mark_now("keel calls");
}

// `label` is the kind and a name; `waits` says whether the call is reported.
#define CALL(label, result_type, name, waits, parameters, arguments)                               \
    FOLLOWING(name);                                                                               \
    KEEL_EXPORT result_type name parameters;                                                       \
    result_type name parameters {                                                                  \
        static_assert(sizeof label <= 17, "16 characters");                                        \
        const void* caller = __builtin_return_address(0);                                          \
        uint64_t began = (waits) ? call_begin(caller) : 0;                                         \
        result_type result = ((result_type(*) parameters)find(&next_##name))arguments;             \
        call_end(label, began, caller);                                                            \
        return result;                                                                             \
    }

// ---- Locks -------------------------------------------------------------------------------------

// `tried` is the result of the function that does not wait, and `busy` what it returns if the lock
// is held. A mutex that looks for errors refuses a second lock by its owner, without a wait.
#define LOCK(label, name, tried, busy, parameters, arguments)                                      \
    FOLLOWING(name);                                                                               \
    KEEL_EXPORT int name parameters;                                                               \
    int name parameters {                                                                          \
        const void* caller = __builtin_return_address(0);                                          \
        uint64_t began = call_begin(caller);                                                       \
        if (began != 0) {                                                                          \
            int result = tried;                                                                    \
            if (!(busy)) return result;                                                            \
        }                                                                                          \
        int result = ((int(*) parameters)find(&next_##name))arguments;                             \
        if (result != EDEADLK) call_end(label, began, caller);                                     \
        return result;                                                                             \
    }
#define BUSY result == EBUSY

typedef const struct timespec* until;
LOCK("lmutex_lock", pthread_mutex_lock, pthread_mutex_trylock(mutex), BUSY,
     (pthread_mutex_t * mutex), (mutex))
LOCK("lmutex_timedlock", pthread_mutex_timedlock, pthread_mutex_trylock(mutex), BUSY,
     (pthread_mutex_t * mutex, until end), (mutex, end))
LOCK("lmutex_clocklock", pthread_mutex_clocklock, pthread_mutex_trylock(mutex), BUSY,
     (pthread_mutex_t * mutex, clockid_t clock, until end), (mutex, clock, end))
LOCK("lrwlock_rdlock", pthread_rwlock_rdlock, pthread_rwlock_tryrdlock(lock), BUSY,
     (pthread_rwlock_t * lock), (lock))
LOCK("lrwlock_wrlock", pthread_rwlock_wrlock, pthread_rwlock_trywrlock(lock), BUSY,
     (pthread_rwlock_t * lock), (lock))
LOCK("lspin_lock", pthread_spin_lock, pthread_spin_trylock(lock), BUSY, (pthread_spinlock_t * lock),
     (lock))
LOCK("lsem_wait", sem_wait, sem_trywait(semaphore), result != 0 && errno == EAGAIN,
     (sem_t * semaphore), (semaphore))
LOCK("lsem_timedwait", sem_timedwait, sem_trywait(semaphore), result != 0 && errno == EAGAIN,
     (sem_t * semaphore, until end), (semaphore, end))
CALL("lcond_wait", int, pthread_cond_wait, true, (pthread_cond_t * c, pthread_mutex_t* m), (c, m))
CALL("lcond_timedwait", int, pthread_cond_timedwait, true,
     (pthread_cond_t * c, pthread_mutex_t* m, until end), (c, m, end))
CALL("lcond_clockwait", int, pthread_cond_clockwait, true,
     (pthread_cond_t * c, pthread_mutex_t* m, clockid_t clock, until end), (c, m, clock, end))
CALL("lbarrier_wait", int, pthread_barrier_wait, true, (pthread_barrier_t * b), (b))
CALL("ljoin", int, pthread_join, true, (pthread_t thread, void** value), (thread, value))

static bool is_futex_wait(long number, long operation) {
    long command = operation & FUTEX_CMD_MASK;
    return number == SYS_futex &&
           (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI);
}

// Passes six words, because no system call has more arguments.
FOLLOWING(syscall);
KEEL_EXPORT long syscall(long number, ...);
long syscall(long number, ...) {
    va_list list;
    long words[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(list, long);
    va_end(list);
    const void* caller = __builtin_return_address(0);
    uint64_t began = is_futex_wait(number, words[1]) ? call_begin(caller) : 0;
    long result = ((long (*)(long, ...))find(&next_syscall))(number, words[0], words[1], words[2],
                                                             words[3], words[4], words[5]);
    call_end("lfutex", began, caller);
    return result;
}

// ---- Files -------------------------------------------------------------------------------------

// The third argument, which exists only for some flags, is passed always: it is in a register.
#define OPEN(name, parameters, arguments)                                                          \
    FOLLOWING(name);                                                                               \
    KEEL_EXPORT int name parameters;                                                               \
    int name parameters {                                                                          \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode_t mode = va_arg(list, mode_t);                                                        \
        va_end(list);                                                                              \
        const void* caller = __builtin_return_address(0);                                          \
        uint64_t began = call_begin(caller);                                                       \
        int result = ((int(*) parameters)find(&next_##name))arguments;                             \
        call_end("f" #name, began, caller);                                                        \
        return result;                                                                             \
    }
OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))

#define FILE_CALL(type, name, parameters, arguments)                                               \
    CALL("f" #name, type, name, true, parameters, arguments)
// The same function under the name that fortified programs call.
#define FORTIFIED(label, type, name, parameters, arguments)                                        \
    CALL("f" label, type, name, true, parameters, arguments)

FILE_CALL(int, creat, (const char* path, mode_t mode), (path, mode))
FILE_CALL(int, close, (int file), (file))
FILE_CALL(ssize_t, read, (int file, void* bytes, size_t count), (file, bytes, count))
FILE_CALL(ssize_t, write, (int file, const void* bytes, size_t count), (file, bytes, count))
FILE_CALL(ssize_t, pread, (int file, void* bytes, size_t count, off_t at), (file, bytes, count, at))
FILE_CALL(ssize_t, pread64, (int file, void* bytes, size_t count, off_t at),
          (file, bytes, count, at))
FILE_CALL(ssize_t, pwrite, (int file, const void* bytes, size_t count, off_t at),
          (file, bytes, count, at))
FILE_CALL(ssize_t, pwrite64, (int file, const void* bytes, size_t count, off_t at),
          (file, bytes, count, at))
FILE_CALL(ssize_t, readv, (int file, const struct iovec* parts, int count), (file, parts, count))
FILE_CALL(ssize_t, writev, (int file, const struct iovec* parts, int count), (file, parts, count))
FILE_CALL(int, fsync, (int file), (file))
FILE_CALL(int, fdatasync, (int file), (file))
FILE_CALL(int, access, (const char* path, int mode), (path, mode))
FILE_CALL(int, unlink, (const char* path), (path))
FILE_CALL(int, rename, (const char* from, const char* to), (from, to))
FILE_CALL(DIR*, opendir, (const char* path), (path))
FILE_CALL(FILE*, fopen, (const char* path, const char* mode), (path, mode))
FILE_CALL(FILE*, fopen64, (const char* path, const char* mode), (path, mode))
FILE_CALL(int, fclose, (FILE * file), (file))
FILE_CALL(int, fflush, (FILE * file), (file))
FILE_CALL(size_t, fread, (void* bytes, size_t size, size_t count, FILE* file),
          (bytes, size, count, file))
FILE_CALL(size_t, fwrite, (const void* bytes, size_t size, size_t count, FILE* file),
          (bytes, size, count, file))
FILE_CALL(char*, fgets, (char* text, int size, FILE* file), (text, size, file))
FILE_CALL(int, fputs, (const char* text, FILE* file), (text, file))
FILE_CALL(int, puts, (const char* text), (text))
FILE_CALL(int, vprintf, (const char* format, va_list list), (format, list))
FILE_CALL(int, vfprintf, (FILE * file, const char* format, va_list list), (file, format, list))
FORTIFIED("open", int, __open_2, (const char* path, int flags), (path, flags))
FORTIFIED("open64", int, __open64_2, (const char* path, int flags), (path, flags))
FORTIFIED("read", ssize_t, __read_chk, (int file, void* bytes, size_t count, size_t room),
          (file, bytes, count, room))
FORTIFIED("fread", size_t, __fread_chk,
          (void* bytes, size_t room, size_t size, size_t count, FILE* file),
          (bytes, room, size, count, file))
FORTIFIED("fgets", char*, __fgets_chk, (char* text, size_t room, int size, FILE* file),
          (text, room, size, file))
FORTIFIED("vprintf", int, __vprintf_chk, (int flag, const char* format, va_list list),
          (flag, format, list))
FORTIFIED("vfprintf", int, __vfprintf_chk,
          (FILE * file, int flag, const char* format, va_list list), (file, flag, format, list))

// Functions of a variable number of arguments call those with a list.
#define PRINT(label, name, parameters, last, listed, types, arguments)                             \
    KEEL_EXPORT int name parameters;                                                               \
    int name parameters {                                                                          \
        va_list list;                                                                              \
        const void* caller = __builtin_return_address(0);                                          \
        uint64_t began = call_begin(caller);                                                       \
        va_start(list, last);                                                                      \
        int result = ((int(*) types)find(&next_##listed))arguments;                                \
        va_end(list);                                                                              \
        call_end("f" label, began, caller);                                                        \
        return result;                                                                             \
    }
PRINT("printf", printf, (const char* format, ...), format, vprintf, (const char*, va_list),
      (format, list))
PRINT("fprintf", fprintf, (FILE * file, const char* format, ...), format, vfprintf,
      (FILE*, const char*, va_list), (file, format, list))
PRINT("printf", __printf_chk, (int flag, const char* format, ...), format, __vprintf_chk,
      (int, const char*, va_list), (flag, format, list))
PRINT("fprintf", __fprintf_chk, (FILE * file, int flag, const char* format, ...), format,
      __vfprintf_chk, (FILE*, int, const char*, va_list), (file, flag, format, list))

// ---- Sleeps ------------------------------------------------------------------------------------

#define SLEEP(name, waits, parameters, arguments)                                                  \
    CALL("s" #name, int, name, waits, parameters, arguments)

CALL("ssleep", unsigned, sleep, true, (unsigned seconds), (seconds))
SLEEP(usleep, true, (useconds_t time), (time))
SLEEP(nanosleep, true, (until time, struct timespec* rest), (time, rest))
SLEEP(clock_nanosleep, true, (clockid_t clock, int flags, until time, struct timespec* rest),
      (clock, flags, time, rest))
SLEEP(poll, time != 0, (struct pollfd * files, nfds_t count, int time), (files, count, time))
SLEEP(ppoll, time == NULL || time->tv_sec != 0 || time->tv_nsec != 0,
      (struct pollfd * files, nfds_t count, until time, const sigset_t* set),
      (files, count, time, set))
SLEEP(select, time == NULL || time->tv_sec != 0 || time->tv_usec != 0,
      (int count, fd_set* r, fd_set* w, fd_set* e, struct timeval* time), (count, r, w, e, time))
SLEEP(pselect, time == NULL || time->tv_sec != 0 || time->tv_nsec != 0,
      (int count, fd_set* r, fd_set* w, fd_set* e, until time, const sigset_t* set),
      (count, r, w, e, time, set))
SLEEP(epoll_wait, time != 0, (int poll, struct epoll_event* events, int count, int time),
      (poll, events, count, time))
SLEEP(epoll_pwait, time != 0,
      (int poll, struct epoll_event* events, int count, int time, const sigset_t* set),
      (poll, events, count, time, set))
