// Every form of new without memory, with handlers that free memory, remove themselves, or throw;
// for libkeel's operators and for those in keel/keel-new-delete.h.
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <keel/runtime.h>

#include <new>
#include <stdexcept>

namespace {

constexpr size_t wanted = 64u * MIB;
constexpr std::align_val_t aligned{128};

struct Form {
    const char* name;
    bool throws;
    void* (*allocate)(size_t);
    void (*free)(void*);
};

const Form forms[] = {
    {"new", true, [](size_t n) { return operator new(n); }, [](void* p) { operator delete(p); }},
    {"new[]", true, [](size_t n) { return operator new[](n); },
     [](void* p) { operator delete[](p, wanted); }},
    {"new nothrow", false, [](size_t n) { return operator new(n, std::nothrow); },
     [](void* p) { operator delete(p, std::nothrow); }},
    {"new[] nothrow", false, [](size_t n) { return operator new[](n, std::nothrow); },
     [](void* p) { operator delete[](p, std::nothrow); }},
    {"new aligned", true, [](size_t n) { return operator new(n, aligned); },
     [](void* p) { operator delete(p, aligned); }},
    {"new[] aligned", true, [](size_t n) { return operator new[](n, aligned); },
     [](void* p) { operator delete[](p, wanted, aligned); }},
    {"new aligned nothrow", false, [](size_t n) { return operator new(n, aligned, std::nothrow); },
     [](void* p) { operator delete(p, aligned, std::nothrow); }},
    {"new[] aligned nothrow", false,
     [](size_t n) { return operator new[](n, aligned, std::nothrow); },
     [](void* p) { operator delete[](p, aligned, std::nothrow); }},
};

// From now on there is no memory for a block of `wanted` bytes.
void let_there_be_little() {
    kl_process process;
    kl_process_info(&process);
    kl_limit(process.held_bytes + wanted / 2);
}

int calls;
void* kept;

void free_some() {
    calls++;
    operator delete(kept);
    kept = nullptr;
}
void give_up() {
    if (++calls == 2) std::set_new_handler(nullptr);
}
void throw_own() {
    calls++;
    throw std::runtime_error("from the handler");
}
void throw_bad_alloc() {
    calls++;
    throw std::bad_alloc();
}

enum class Outcome { block, null, bad_alloc, own };

Outcome outcome_of(const Form& form, void** block = nullptr) {
    try {
        void* volatile p = form.allocate(wanted);
        if (block != nullptr) *block = p;
        return p != nullptr ? Outcome::block : Outcome::null;
    } catch (const std::bad_alloc&) {
        return Outcome::bad_alloc;
    } catch (const std::runtime_error&) {
        return Outcome::own;
    }
}

void expect(const Form& form, Outcome outcome, int expected_calls) {
    CHECK_WITH(outcome_of(form) == outcome, "%s", form.name);
    CHECK_WITH(calls == expected_calls, "%s: %d calls", form.name, calls);
}

} // namespace

TEST(the_operators_use_keel) {
    for (const Form& form : forms) {
        void* p = form.allocate(wanted); // the sized forms state this size
        CHECK_WITH(kl_contains(p), "%s", form.name);
        form.free(p);
    }
}

TEST(every_form_succeeds_after_the_handler_frees_memory) {
    for (const Form& form : forms) {
        kl_limit(0);
        kept = operator new(wanted);
        calls = 0;
        kl_process process;
        kl_process_info(&process);
        kl_limit(process.held_bytes + wanted / 2);
        std::set_new_handler(free_some);
        void* block = nullptr;
        CHECK_WITH(outcome_of(form, &block) == Outcome::block, "%s", form.name);
        CHECK_WITH(calls == 1, "%s: %d calls", form.name, calls);
        CHECK(kl_contains(block) && kl_usable_size(block) >= wanted);
        form.free(block);
    }
}

TEST(without_a_handler_the_throwing_forms_throw_and_the_others_return_null) {
    let_there_be_little();
    for (const Form& form : forms)
        expect(form, form.throws ? Outcome::bad_alloc : Outcome::null, 0);
}

TEST(a_handler_is_called_until_it_removes_itself) {
    let_there_be_little();
    for (const Form& form : forms) {
        calls = 0;
        std::set_new_handler(give_up);
        expect(form, form.throws ? Outcome::bad_alloc : Outcome::null, 2);
    }
}

TEST(exceptions_of_the_handler_propagate_from_the_throwing_forms_only) {
    let_there_be_little();
    for (const Form& form : forms) {
        calls = 0;
        std::set_new_handler(throw_own);
        expect(form, form.throws ? Outcome::own : Outcome::null, 1);
        std::set_new_handler(throw_bad_alloc);
        expect(form, form.throws ? Outcome::bad_alloc : Outcome::null, 2);
    }
}
