# How many instructions a malloc and a free take in the shared library, by stepping through them.
add_executable(allocator_instructions ${CMAKE_CURRENT_LIST_DIR}/instructions.c)
target_link_libraries(allocator_instructions PRIVATE keel_flags keel_shared ${CMAKE_DL_LIBS})
target_compile_options(allocator_instructions PRIVATE -fno-builtin)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT KEEL_SANITIZE AND NOT KEEL_COUNT)
  add_test(NAME allocator_instructions COMMAND allocator_instructions)
endif()
