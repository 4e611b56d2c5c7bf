// A listener of Catch2 (version 2 or 3) that marks each test case. Include it in one source file of
// the tests, after Catch2. A budget can then limit a test case:
//
//     [[between]]
//     from = "begin: the mixer does not allocate"
//     to = "end: the mixer does not allocate"
//     allocations = 10
//
// and `keel check --budget budget.toml -- ./tests` checks it. Catch2 itself allocates a little in
// each test case. Without keel the marks do nothing.
#pragma once

#if __has_include(<catch2/catch_test_case_info.hpp>)
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using keel_listener = Catch::EventListenerBase;
#else
#include <catch2/catch.hpp>
using keel_listener = Catch::TestEventListenerBase;
#endif
#include <string>

// The recorder defines it.
extern "C" __attribute__((weak)) void kl_record_mark_now(const char* text);

class keel_marks : public keel_listener {
  public:
    using keel_listener::keel_listener;

    void testCaseStarting(const Catch::TestCaseInfo& info) override {
        name = info.name;
        mark("begin: ");
    }
    void testCaseEnded(const Catch::TestCaseStats&) override { mark("end: "); }

  private:
    std::string name;

    void mark(const char* kind) const {
        if (kl_record_mark_now) kl_record_mark_now((kind + name).c_str());
    }
};

CATCH_REGISTER_LISTENER(keel_marks)
