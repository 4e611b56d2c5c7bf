# Under a sanitizer the contract suites and the stress test call kl_malloc and its family, which are
# built with the sanitizer too. Tests of the process's own malloc are left out: preloading, C++
# operators, and limits that a sanitizer's shadow memory exceeds.

if(KEEL_SANITIZE STREQUAL "undefined")
  set(sanitizer_options UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)
elseif(KEEL_SANITIZE STREQUAL "thread")
  # A child that is forked while another thread starts threads reports them as leaked.
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
