// The functions of keel/runtime.h, where they are documented.
#include "keel/runtime.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/api/message.h"
#include "allocator/api/process.h"
#include "base/options.h"
#include "os/machine.h"

_Static_assert((int)kl_option_count == (int)OPTION_COUNT &&
                   (int)kl_option_large_os_pages == (int)OPTION_LARGE_OS_PAGES &&
                   (int)kl_option_reset_delay == (int)OPTION_RESET_DELAY &&
                   (int)kl_option_max_errors == (int)OPTION_MAX_ERRORS &&
                   (int)kl_option_limit == (int)OPTION_LIMIT,
               "the public and the internal numbers agree");

static bool is_option(kl_option_t option) {
    return (unsigned)option < OPTION_COUNT;
}

// The environment takes precedence over a default, and a call takes precedence over the
// environment. Therefore the environment is read first.
long kl_option_get(kl_option_t option) {
    process_enter();
    return is_option(option) ? (long)option_get((enum option)option) : 0;
}
void kl_option_set(kl_option_t option, long value) {
    process_enter();
    if (is_option(option)) option_set((enum option)option, value);
}
void kl_option_set_default(kl_option_t option, long value) {
    process_enter();
    if (is_option(option)) option_set_default((enum option)option, value);
}
bool kl_option_is_enabled(kl_option_t option) {
    return kl_option_get(option) != 0;
}
void kl_option_enable(kl_option_t option) {
    kl_option_set(option, 1);
}
void kl_option_disable(kl_option_t option) {
    kl_option_set(option, 0);
}
void kl_option_set_enabled(kl_option_t option, bool enable) {
    kl_option_set(option, enable);
}
void kl_option_set_enabled_default(kl_option_t option, bool enable) {
    kl_option_set_default(option, enable);
}
const char* kl_option_name(kl_option_t option) {
    return is_option(option) ? option_name((enum option)option) : NULL;
}

void kl_process_init(void) {
    process_enter();
}
bool kl_thread_init(void) {
    process_enter();
    struct heap* before = own_heap_enter();
    bool has_heap = heap_acquire() != NULL;
    own_heap_leave(before);
    return has_heap;
}
void kl_thread_done(void) {
    (void)user_heap_set_default(NULL);
    if (!heap_is_real(thread_heap)) return;
    heap_leave();
    thread_heap = (struct heap*)&heap_none; // not for good
}

size_t kl_limit(size_t bytes) {
    process_enter();
    int64_t before = option_get(OPTION_LIMIT);
    option_set(OPTION_LIMIT, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
    return before < 0 ? 0 : (size_t)before;
}

void kl_machine_info(struct kl_machine* machine) {
    struct os_machine found;
    os_machine(&found);
    *machine = (struct kl_machine){
        .processors = found.processors,
        .processors_milli = found.processors_milli,
        .memory_bytes = found.memory_bytes,
        .memory_limit_bytes = found.memory_limit_bytes,
    };
}

void kl_register_output(kl_output* output, void* argument) {
    message_set_output(output, argument);
}
void kl_register_error(kl_error_handler* handler, void* argument) {
    message_set_error(handler, argument);
}
void kl_register_deferred_free(kl_deferred_free* handler, void* argument) {
    message_set_deferred_free(handler, argument);
}
void kl_register_out_of_memory(kl_out_of_memory* handler, void* argument) {
    message_set_out_of_memory(handler, argument);
}
