#include "os/fault.h"
#include "os/windows/system.h"

static os_fault_examiner* examine_fault;

// The information of an access violation: 0 for reading, 1 for writing, 8 for executing; the
// address.
static LONG WINAPI on_exception(EXCEPTION_POINTERS* pointers) {
    const EXCEPTION_RECORD* record = pointers->ExceptionRecord;
    if (record->ExceptionCode == EXCEPTION_ACCESS_VIOLATION && record->NumberParameters >= 2)
        examine_fault(record->ExceptionInformation[1],
                      record->ExceptionInformation[0] == 1 ? OS_WRITE : OS_READ);
    return EXCEPTION_CONTINUE_SEARCH;
}

bool os_fault_watch(os_fault_examiner* examine) {
    examine_fault = examine;
    return AddVectoredExceptionHandler(1, on_exception) != NULL;
}
