# Builds for Linux on another architecture, and runs what it built under user-mode emulation:
#
#     cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/emulated.cmake \
#         -DKEEL_MACHINE=aarch64
#
# KEEL_MACHINE is aarch64, aarch64-musl, riscv64, s390x, ppc64le or loongarch64. Debian's packages
# for the first:
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static, and for the tests of C++
# g++-aarch64-linux-gnu. The static emulator, because what a test preloads is for the program under
# test, and a dynamic one would try to load it too. For loongarch64 and aarch64-musl, KEEL_ROOT is
# the folder that tests/support/debian.sh made.
set(KEEL_MACHINE aarch64 CACHE STRING "the architecture to build for")
set(KEEL_EMULATOR "" CACHE STRING "a command that starts the emulator")
set(KEEL_ROOT "" CACHE PATH "where Debian's packages for the machine are")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEEL_MACHINE KEEL_EMULATOR KEEL_ROOT)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${KEEL_MACHINE})
string(REPLACE ppc64le powerpc64le triple ${KEEL_MACHINE}-linux-gnu)
if(KEEL_MACHINE STREQUAL "loongarch64") # for which Debian 12 has no GCC
  set(CMAKE_C_COMPILER clang-19)
  set(CMAKE_C_COMPILER_TARGET ${triple})
  set(CMAKE_CXX_COMPILER "")
  set(CMAKE_SYSROOT ${KEEL_ROOT})
  set(CMAKE_C_FLAGS_INIT --gcc-install-dir=${KEEL_ROOT}/usr/lib/gcc-cross/${triple}/14)
  foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld-19)
  endforeach()
  find_program(CMAKE_LINKER ld.lld-19 REQUIRED)
  find_program(CMAKE_OBJCOPY llvm-objcopy-19 REQUIRED)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${KEEL_EMULATOR} ${KEEL_ROOT}/usr/bin/qemu-loongarch64
    -L ${KEEL_ROOT}/usr/${triple})
  return()
elseif(KEEL_MACHINE STREQUAL "aarch64-musl")
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(CMAKE_C_COMPILER ${KEEL_ROOT}/usr/bin/aarch64-linux-musl-gcc)
  set(CMAKE_CXX_COMPILER "")
  find_program(CMAKE_LINKER aarch64-linux-gnu-ld REQUIRED)
  find_program(CMAKE_OBJCOPY aarch64-linux-gnu-objcopy REQUIRED)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${KEEL_EMULATOR} qemu-aarch64-static -L ${KEEL_ROOT})
  return()
endif()
set(CMAKE_C_COMPILER ${triple}-gcc)
find_program(KEEL_CXX ${triple}-g++)
if(KEEL_CXX)
  set(CMAKE_CXX_COMPILER ${KEEL_CXX})
else()
  set(CMAKE_CXX_COMPILER "")
endif()
set(CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${KEEL_EMULATOR} qemu-${KEEL_MACHINE}-static -L /usr/${triple})
