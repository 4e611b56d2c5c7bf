/* The cases of unwind.c that are in other files. */
#ifndef KEEL_TESTS_UNWIND_CASES_H
#define KEEL_TESTS_UNWIND_CASES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Compares the two walks from here. */
void compare_walks(void);
void run_cxx_cases(void);

#ifdef __cplusplus
}
#endif
#endif
