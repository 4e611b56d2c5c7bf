# Projects ask for the mimalloc that they were written with. All up to 3 are answered with yes: what
# Keel has not of a later one's names is missed by the compiler or the linker, never by the user.
set(PACKAGE_VERSION 3.0)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
if(PACKAGE_FIND_VERSION AND PACKAGE_FIND_VERSION VERSION_GREATER_EQUAL 4)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
