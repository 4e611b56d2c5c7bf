// A signal handler may leave libgcc's unwinder with longjmp. Later call stacks use it again.
//
// This program is linked with the static library and defines that unwinder: its first call leaves.
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

static sigjmp_buf before;
static volatile int calls, armed;

_Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn visit, void* argument) {
    (void)visit;
    (void)argument;
    calls++;
    if (armed != 0) siglongjmp(before, 1);
    return _URC_END_OF_STACK;
}
_Unwind_Ptr _Unwind_GetIPInfo(struct _Unwind_Context* context, int* interrupted) {
    (void)context;
    *interrupted = 0;
    return 0;
}
_Unwind_Word _Unwind_GetCFA(struct _Unwind_Context* context) {
    (void)context;
    return 0;
}
_Unwind_Word _Unwind_GetGR(struct _Unwind_Context* context, int number) {
    (void)context;
    (void)number;
    return 0;
}

// Its frame is one for which the unwinder is needed.
static void allocates_in_signal(int number) {
    (void)number;
    free(malloc(10));
}

int main(void) {
    signal(SIGUSR1, allocates_in_signal);
    armed = 1;
    if (sigsetjmp(before, 1) == 0) raise(SIGUSR1);
    armed = 0;
    int left = calls;
    for (int i = 0; i < 1000; i++) raise(SIGUSR1);
    bool passed = left > 0 && calls > left;
    printf("%d passed, %d failed, 0 skipped\n", passed, !passed);
    return passed ? 0 : 1;
}
