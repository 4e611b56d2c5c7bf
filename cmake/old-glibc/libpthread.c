// For the linker only (cmake/old-glibc.cmake): the functions that glibc before 2.34 had in
// libpthread.
#define FUNCTION(name)                                                                             \
    void name(void);                                                                               \
    void name(void) {}
FUNCTION(__pthread_key_create)
FUNCTION(pthread_attr_setstacksize)
FUNCTION(pthread_create)
FUNCTION(pthread_join)
FUNCTION(pthread_getspecific)
FUNCTION(pthread_key_create)
FUNCTION(pthread_mutex_trylock)
FUNCTION(pthread_once)
FUNCTION(pthread_rwlock_tryrdlock)
FUNCTION(pthread_rwlock_trywrlock)
FUNCTION(pthread_setspecific)
FUNCTION(pthread_sigmask)
FUNCTION(pthread_spin_trylock)
FUNCTION(sem_trywait)
