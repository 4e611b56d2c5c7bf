# Adds a test that runs `keel check`:
#
#     include(KeelCheck.cmake)
#     keel_add_check(game.budget TARGET game BUDGET budget.toml ARGUMENTS --demo)
#
# The test fails if a limit is broken. It is skipped if the program `keel` is not installed.
find_program(KEEL_PROGRAM keel)

function(keel_add_check name)
  cmake_parse_arguments(PARSE_ARGV 1 check "" "TARGET;BUDGET" "ARGUMENTS;OPTIONS")
  get_filename_component(budget "${check_BUDGET}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(KEEL_PROGRAM)
    add_test(NAME "${name}" COMMAND "${KEEL_PROGRAM}" check --budget "${budget}" ${check_OPTIONS}
      -- "$<TARGET_FILE:${check_TARGET}>" ${check_ARGUMENTS})
  else()
    add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}" -E echo "keel is not installed")
    set_tests_properties("${name}" PROPERTIES SKIP_REGULAR_EXPRESSION "keel is not installed")
  endif()
endfunction()
