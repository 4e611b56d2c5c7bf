// Cases of unwind.c: templates, lambdas, virtual functions, destructors that an exception runs.
#include "unwind_cases.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual int area() const = 0;
};

struct Square : Shape {
    int side = 2;
    int area() const override {
        compare_walks();
        return side * side;
    }
};

// Its destructor runs while an exception passes, too.
struct Guard {
    ~Guard() { compare_walks(); }
};

__attribute__((noinline)) void throwing(int depth) {
    Guard guard;
    if (depth == 0) throw std::runtime_error("expected");
    throwing(depth - 1);
}

void exceptions() {
    try {
        throwing(5);
    } catch (const std::exception&) {
        compare_walks();
    }
}

void callbacks() {
    std::vector<int> numbers = {5, 3, 9, 1, 7, 2, 8};
    std::sort(numbers.begin(), numbers.end(), [](int one, int other) {
        compare_walks();
        return one < other;
    });
    std::function<int(int)> count = [&](int left) {
        compare_walks();
        return left == 0 ? 0 : 1 + count(left - 1);
    };
    count(6);
    std::map<std::string, std::function<void()>> named = {{"one", compare_walks}};
    named["one"]();
}

} // namespace

void run_cxx_cases(void) {
    Square square;
    const Shape& shape = square;
    if (shape.area() == 4) exceptions();
    callbacks();
}
