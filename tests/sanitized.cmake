# Under a sanitizer: the suites of the contract and the stress call kl_malloc and its family, built with the sanitizer too.
# Left out is what is about the process's own malloc: preloading, C++ operators, limits that a sanitizer's shadow breaks.

if(KEEL_SANITIZE STREQUAL "undefined")
  set(sanitizer_options UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)
elseif(KEEL_SANITIZE STREQUAL "thread")
  # A child forked while another thread starts threads sees them as leaked; races are what is looked for here.
  set(sanitizer_options TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:report_thread_leaks=0)
else()
  set(sanitizer_options ASAN_OPTIONS=detect_leaks=0:abort_on_error=1)
endif()
set(environment ${sanitizer_options})
set(labels sanitized)

if(TARGET keel_api_static)
  foreach(suite sizes contents aligned large threads fork loading)
    keel_program(${suite}-api contract/${suite}.c keel_api_static)
    target_compile_definitions(${suite}-api PRIVATE SUBJECT_API=1)
    keel_test(contract/${suite}/api ${suite}-api)
  endforeach()
  keel_program(stress-api stress/stress.c keel_api_static)
  target_compile_definitions(stress-api PRIVATE SUBJECT_API=1)
  foreach(seed 1 2 3)
    keel_test(stress/seed-${seed}/api stress-api --seed ${seed} --threads 4 --operations 60000)
  endforeach()
endif()
