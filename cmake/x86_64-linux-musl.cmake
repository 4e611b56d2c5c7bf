# Builds for musl on a machine with glibc, with the packages musl-dev and musl-tools of Debian, which
# contain neither a C++ library nor the kernel's headers:
#
#     cmake -S . -B build/musl -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64-linux-musl.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER "")

set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${kernel_headers})
foreach(name linux asm-generic)
  file(CREATE_LINK /usr/include/${name} ${kernel_headers}/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK /usr/include/x86_64-linux-gnu/asm ${kernel_headers}/asm SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${kernel_headers}")
