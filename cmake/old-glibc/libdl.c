// For the linker only (cmake/old-glibc.cmake): the functions that glibc before 2.34 had in libdl.
#define FUNCTION(name)                                                                             \
    void name(void);                                                                               \
    void name(void) {}
FUNCTION(dladdr)
FUNCTION(dlerror)
FUNCTION(dlopen)
FUNCTION(dlsym)
FUNCTION(dlvsym)
