# The libraries for Windows, from the same sources:
#
#   keel.dll, libkeel.dll.a    malloc and its family, kl_*; the import library also has the operators
#                              of C++ as an object (override/windows/operators.cc)
#   libkeel.a                  the same for a program without keel.dll
#   libkeel_api.a              only kl_*
#   keel_record.dll, libkeel_record.dll.a, libkeel_record.a    keel/recorder.h
#   keel_open                  all objects with their internal names, for the tests
#
# The names with -secure are those of the secure flavour. There is no debug flavour.
include(CheckCSourceCompiles)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF) # all code for Windows is
file(WRITE ${PROJECT_BINARY_DIR}/tls.c "_Thread_local int number; int* address(void) { return &number; }\n")
execute_process(COMMAND ${CMAKE_C_COMPILER} --target=${CMAKE_C_COMPILER_TARGET} -S -o -
  ${PROJECT_BINARY_DIR}/tls.c OUTPUT_VARIABLE assembly ERROR_QUIET)
if(NOT assembly MATCHES "_tls_index")
  message(FATAL_ERROR "${CMAKE_C_COMPILER} emulates thread-local variables by functions that call "
    "malloc, so it cannot compile Keel for Windows. Use clang, as "
    "-DCMAKE_TOOLCHAIN_FILE=cmake/x86_64-w64-mingw32.cmake does.")
endif()
if(KEEL_DEBUG)
  message(FATAL_ERROR "The debug flavour does not exist for Windows: it needs call stacks and the "
    "list of mappings, which in_process/os/windows does not have.")
endif()
# Windows 8.1 and later: its functions, and addresses up to 128 TiB.
target_compile_definitions(keel_flags INTERFACE _WIN32_WINNT=0x0603)
target_compile_options(keel_flags INTERFACE "$<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-sign-conversion;-fno-addrsig>")

set(core_parts base os space warm page large heap guarded alloc keeper api)
foreach(part base os allocator)
  add_subdirectory(in_process/${part})
endforeach()
set(core_objects)
set(core_sources)
foreach(part ${core_parts})
  list(APPEND core_objects $<TARGET_OBJECTS:keel_${part}>)
  get_target_property(sources keel_${part} SOURCES)
  get_target_property(folder keel_${part} SOURCE_DIR)
  list(TRANSFORM sources PREPEND ${folder}/)
  list(APPEND core_sources ${sources})
endforeach()
set(override ${PROJECT_SOURCE_DIR}/in_process/allocator/override/windows)
set(system_libraries synchronization psapi advapi32 ntdll)

function(keel_includes scope)
  foreach(target ${ARGN})
    target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/in_process/include>)
  endforeach()
endfunction()

add_library(keel_family OBJECT ${override}/family.c)
add_library(keel_operators OBJECT ${override}/operators.cc)
foreach(target keel_family keel_operators)
  target_link_libraries(${target} PRIVATE keel_flags)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/in_process)
endforeach()
keel_includes(PRIVATE keel_family keel_operators)
set(no_builtins -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free)
target_compile_options(keel_family PRIVATE ${no_builtins})

# One object in which only the public names are global (as keel_single_object does elsewhere).
file(STRINGS ${override}/family.def family REGEX "^    ")
list(TRANSFORM family STRIP)
set(public kl_* .refptr.kl_*)
foreach(name ${family})
  list(APPEND public ${name} __imp_${name})
endforeach()
list(TRANSFORM public PREPEND --keep-global-symbol=)
# The linker sorts a section .pdata, the table of functions for exceptions, also when it makes an
# object, and leaves the relocations as they were. So the section has another name meanwhile.
file(WRITE ${PROJECT_BINARY_DIR}/object.ld "SECTIONS { .pdata_ : { *(.pdata) } } INSERT BEFORE .rdata;\n")
# keel_windows_archive(TARGET NAME OBJECTS...)
function(keel_windows_archive target name)
  set(object ${PROJECT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${object} COMMAND_EXPAND_LISTS VERBATIM DEPENDS ${ARGN}
    COMMAND ${CMAKE_LINKER} -r -T ${PROJECT_BINARY_DIR}/object.ld -o ${object}.open ${ARGN}
    COMMAND ${CMAKE_OBJCOPY} --rename-section .pdata_=.pdata --wildcard ${public} ${object}.open ${object}
    COMMENT "Linking ${name}.o")
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${target} STATIC ${object})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C)
endfunction()
keel_windows_archive(keel_static keel${KEEL_FLAVOUR} ${core_objects} $<TARGET_OBJECTS:keel_family>)
target_sources(keel_static PRIVATE $<TARGET_OBJECTS:keel_operators>)
keel_windows_archive(keel_api_archive keel_api${KEEL_FLAVOUR} ${core_objects})
add_library(keel_api_static STATIC ${core_objects})
set_target_properties(keel_api_static PROPERTIES OUTPUT_NAME keel_open LINKER_LANGUAGE C
  ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

add_library(keel_shared SHARED ${core_sources} ${override}/family.c ${override}/family.def)
target_compile_definitions(keel_shared PRIVATE KEEL_IS_DLL=1)
target_compile_options(keel_shared PRIVATE ${no_builtins})
target_include_directories(keel_shared PRIVATE ${PROJECT_SOURCE_DIR}/in_process)
target_link_libraries(keel_shared PRIVATE keel_flags ${system_libraries})
set_target_properties(keel_shared PROPERTIES OUTPUT_NAME keel${KEEL_FLAVOUR} PREFIX ""
  IMPORT_PREFIX lib RUNTIME_OUTPUT_DIRECTORY ${KEEL_OUTPUT_DIR}/bin)
add_custom_command(TARGET keel_shared POST_BUILD COMMAND_EXPAND_LISTS VERBATIM
  COMMAND ${CMAKE_AR} q $<TARGET_LINKER_FILE:keel_shared> $<TARGET_OBJECTS:keel_operators>
  COMMENT "Adding the operators to the import library")
add_dependencies(keel_shared keel_operators)

# The linker exports all global names of an object if none is marked: these are the public ones.
set(recorder windows.c no_reader.c state.c thread.c caches.c log.c marks.c gate.c embedded.c)
list(TRANSFORM recorder PREPEND in_process/recorder/)
add_library(keel_record_objects OBJECT ${recorder})
target_include_directories(keel_record_objects PRIVATE ${PROJECT_SOURCE_DIR} in_process)
target_link_libraries(keel_record_objects PRIVATE keel_flags)
keel_includes(PRIVATE keel_record_objects)
keel_windows_archive(keel_record_static keel_record $<TARGET_OBJECTS:keel_record_objects>)
add_library(keel_record SHARED ${PROJECT_BINARY_DIR}/keel_record.o)
set_target_properties(keel_record PROPERTIES LINKER_LANGUAGE C PREFIX "" IMPORT_PREFIX lib
  RUNTIME_OUTPUT_DIRECTORY ${KEEL_OUTPUT_DIR}/bin)
add_dependencies(keel_record keel_record_static)
target_link_libraries(keel_record PRIVATE ntdll)
target_link_libraries(keel_record_static PUBLIC ntdll)
keel_includes(PUBLIC keel_record keel_record_static keel_shared keel_static keel_api_archive keel_api_static)
foreach(target keel_static keel_api_archive keel_api_static)
  target_link_libraries(${target} PUBLIC ${system_libraries})
endforeach()
if(KEEL_INSTALL)
  install(TARGETS keel_shared keel_static keel_api_archive keel_record keel_record_static)
  install(DIRECTORY in_process/include/ TYPE INCLUDE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(libraries DEPENDS keel_shared keel_static keel_api_archive keel_record keel_record_static)
  if(KEEL_TESTS AND EXISTS ${PROJECT_SOURCE_DIR}/tests/windows)
    add_subdirectory(tests/windows)
  endif()
endif()
