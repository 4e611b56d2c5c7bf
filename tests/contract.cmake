# The ordinary build: the contract suites, linked and preloaded, and faulty allocators that the
# suites must detect.

add_library(contract_plugin MODULE contract/plugin.c support/memory.c)
target_include_directories(contract_plugin PRIVATE support)
target_link_libraries(contract_plugin PRIVATE keel_flags)
set_target_properties(contract_plugin PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${test_dir})

# contract_program(TARGET SOURCE LIBRARIES...)
function(contract_program target source)
  keel_program(${target} ${source} ${ARGN})
  target_compile_definitions(${target} PRIVATE KEEL_TEST_PLUGIN="$<TARGET_FILE:contract_plugin>")
  add_dependencies(${target} contract_plugin)
endfunction()

# These suites also run with Keel behind the bridge, which forwards every call of a program.
set(suites_behind_bridge contents aligned large threads fork)

# These suites also run with the keeper's thread from the start.
set(suites_with_keeper threads fork loading footprint)

function(contract_suite name source)
  contract_program(${name}-plain ${source})
  if(NOT name MATCHES "footprint|misuse") # here Keel guarantees more than the C library
    set(labels reference)
    set(environment CHECK_MALLOC_IN=libc.so)
    keel_test(contract/${name}/c-library ${name}-plain)
  endif()
  set(labels contract)
  # The other flavours know more about these blocks and print another sentence: tests/misuse.
  if(KEEL_DEBUG AND name STREQUAL misuse)
    leave_out(a_second_free_of_a_large_block_is_detected a_free_of_a_block_that_never_was_is_detected)
  elseif(KEEL_SECURE AND name STREQUAL misuse)
    leave_out(a_second_free_of_a_large_block_is_detected)
  elseif(name STREQUAL fork AND NOT KEEL_IS_GLIBC)
    # musl's own malloc fails two, too. The others start a program of glibc with musl's libkeel.
    set(environment "")
    leave_out(handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap
      a_handler_of_another_library_forks other_programs_can_be_started_from_a_busy_process
      a_busy_process_can_become_another_program)
  else()
    set(environment "")
  endif()
  set(flavour_environment ${flavour_environment} ${environment})
  if(TARGET keel_shared)
    contract_program(${name}-shared ${source} keel_shared)
    set(environment CHECK_MALLOC_IN=libkeel${KEEL_FLAVOUR}.so ${flavour_environment})
    keel_test(contract/${name}/shared ${name}-shared)
    set(environment CHECK_MALLOC_IN=libkeel${KEEL_FLAVOUR}.so ${flavour_environment} "LD_PRELOAD=$<TARGET_FILE:keel_shared>")
    keel_test(contract/${name}/preload ${name}-plain)
    if(name IN_LIST suites_with_keeper)
      list(APPEND environment KEEL_KEEPER=on)
      keel_test(contract/${name}/keeper ${name}-plain)
    endif()
  endif()
  if(TARGET keel_bridge AND name IN_LIST suites_behind_bridge)
    set(environment CHECK_MALLOC_IN=libkeel_bridge.so ${flavour_environment}
      "LD_PRELOAD=$<TARGET_FILE:keel_bridge>" "KEEL_BRIDGE=prefix:kl_:$<TARGET_FILE:keel_shared>"
      GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536)
    keel_test(contract/${name}/bridge ${name}-plain)
  endif()
  if(TARGET keel_static)
    contract_program(${name}-static ${source} keel_static)
    set(environment CHECK_MALLOC_IN=${name}-static ${flavour_environment})
    keel_test(contract/${name}/static ${name}-static)
  endif()
endfunction()

foreach(suite ${contract_suites})
  contract_suite(${suite} contract/${suite}.c)
endforeach()
if(CMAKE_CXX_COMPILER)
  contract_suite(operators contract/operators.cpp)
endif()

keel_program(stress stress/stress.c)
keel_program(replay_text replay/replay_text.c)
# Not linked with the rest: its own resident size is the smallest peak that it can measure.
add_executable(overseer support/overseer.c support/overseer_memory.c support/overseer_trace.c)
target_link_libraries(overseer PRIVATE keel_flags)
set_target_properties(overseer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${test_dir})
if(TARGET keel_shared)
  set(labels stress)
  set(environment "LD_PRELOAD=$<TARGET_FILE:keel_shared>")
  foreach(seed 1 2 3)
    keel_test(stress/seed-${seed} stress --seed ${seed} --threads 4 --operations 300000)
  endforeach()
  # Runs for an hour: `make soak`, no test of ctest.
  keel_program(soak soak/soak.c keel_shared)
  target_sources(soak PRIVATE soak/load.c)
  set(labels programs)
  set(environment "")
  keel_test(replay/sample ${CMAKE_CURRENT_SOURCE_DIR}/replay/run.sh $<TARGET_FILE:replay_text>
    $<TARGET_FILE:keel_shared>)
endif()
if(TARGET keel_bridge)
  # Each workload runs once; some verify their data and end with an error if it was changed.
  keel_test(bench/synthetic ${CMAKE_CURRENT_SOURCE_DIR}/support/synthetic.sh
    $<TARGET_FILE:keel-synthetic> $<TARGET_FILE:keel-patterns> $<TARGET_FILE:keel_bridge> $<TARGET_FILE:keel_shared>)
  keel_test(bench/bridge_settings ${CMAKE_CURRENT_SOURCE_DIR}/support/bridge_settings.sh
    $<TARGET_FILE:keel_bridge> ${CMAKE_C_COMPILER})
  keel_test(programs/overseer ${CMAKE_CURRENT_SOURCE_DIR}/support/overseer.sh
    $<TARGET_FILE:overseer>)
  keel_test(programs ${CMAKE_CURRENT_SOURCE_DIR}/programs/run.sh $<TARGET_FILE:keel_shared>
    $<TARGET_FILE_DIR:stress>)
  set_tests_properties(programs PROPERTIES PROCESSORS 2)
endif()

# Proof that the suites can fail: a small allocator, correct in one build and with one fault in each
# of the others.
set(toy_faults MISALIGNED OVERLAPPING DIRTY_CALLOC CUT_REALLOC NO_ERRNO WRAPPED_SIZE WRAPPED_PRODUCT
  LYING_USABLE_SIZE WEAK_ALIGNMENT FORGETFUL RACING LOCKED_IN_CHILD QUIET_NEW)
foreach(fault NONE ${toy_faults})
  add_library(toy_${fault} MODULE toys/toy.c)
  target_compile_definitions(toy_${fault} PRIVATE TOY_FAULT=TOY_${fault})
  target_compile_options(toy_${fault} PRIVATE -fno-builtin -Wno-array-bounds)
  target_link_libraries(toy_${fault} PRIVATE keel_flags pthread)
  target_link_options(toy_${fault} PRIVATE -Wl,-Bsymbolic) # also when loaded beside another malloc
  set_target_properties(toy_${fault} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${test_dir}/toys)
endforeach()
# They run the suite `footprint`, too, which the debug flavour does not have.
set(labels toys)
set(environment "")
if(NOT KEEL_DEBUG)
  keel_test(toys ${CMAKE_CURRENT_SOURCE_DIR}/toys/run.sh ${test_dir})
endif()
