# The libraries for macOS, from the same sources:
#
#   libkeel.dylib      malloc and its family for the whole process (override/macos/zone.c), and kl_*
#   libkeel_api.a      only kl_*, beside the program's own malloc
#   keel_open          the same with internal names, for tests
#
# There is no static library that replaces malloc: the loader exchanges the C library's functions
# for those of a dylib only.
if(KEEL_DEBUG)
  message(FATAL_ERROR "The debug flavour does not exist for macOS: it needs call stacks and the "
    "list of mappings, which in_process/os/posix does not have.")
endif()
add_compile_options(-femulated-tls) # os/posix/thread_local.c
set(core_parts base os space warm page large heap guarded alloc keeper api)
foreach(part base os allocator)
  add_subdirectory(in_process/${part})
endforeach()
set(core_objects)
foreach(part ${core_parts})
  list(APPEND core_objects $<TARGET_OBJECTS:keel_${part}>)
endforeach()

add_library(keel_api_archive STATIC ${core_objects})
set_target_properties(keel_api_archive PROPERTIES OUTPUT_NAME keel_api${KEEL_FLAVOUR})
add_library(keel_shared SHARED ${core_objects}
  in_process/allocator/override/macos/zone.c)
set_target_properties(keel_shared PROPERTIES OUTPUT_NAME keel${KEEL_FLAVOUR}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(keel_shared PRIVATE in_process)
target_link_libraries(keel_shared PRIVATE keel_flags)
foreach(target keel_api_archive keel_shared)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/in_process/include>)
endforeach()
