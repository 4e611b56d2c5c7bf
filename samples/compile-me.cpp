// `make demo` records g++ while it compiles this file. It is ordinary modern C++ (containers, a
// small expression evaluator with std::variant, threads, algorithms), so the compiler
// allocates as for typical code. The program also runs: it counts the words of its input and
// evaluates sums in it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace expression {

struct Number {
    double value;
};
struct Negate;
struct Binary;
using Node = std::variant<Number, std::unique_ptr<Negate>, std::unique_ptr<Binary>>;
struct Negate {
    Node operand;
};
struct Binary {
    char operation;
    Node left, right;
};

class Parser {
  public:
    explicit Parser(std::string text) : text_(std::move(text)) {}

    Node parse() {
        Node result = sum();
        if (peek()) throw std::invalid_argument("unexpected character at " + std::to_string(at_));
        return result;
    }

  private:
    std::optional<char> peek() {
        while (at_ < text_.size() && text_[at_] == ' ') at_++;
        if (at_ == text_.size()) return std::nullopt;
        return text_[at_];
    }

    Node sum() {
        Node left = product();
        while (auto c = peek()) {
            if (*c != '+' && *c != '-') break;
            at_++;
            left = std::make_unique<Binary>(Binary{*c, std::move(left), product()});
        }
        return left;
    }

    Node product() {
        Node left = unit();
        while (auto c = peek()) {
            if (*c != '*' && *c != '/') break;
            at_++;
            left = std::make_unique<Binary>(Binary{*c, std::move(left), unit()});
        }
        return left;
    }

    Node unit() {
        auto c = peek();
        if (!c) throw std::invalid_argument("the expression ends too early");
        if (*c == '-') {
            at_++;
            return std::make_unique<Negate>(Negate{unit()});
        }
        if (*c == '(') {
            at_++;
            Node inner = sum();
            if (peek() != ')') throw std::invalid_argument("a parenthesis is not closed");
            at_++;
            return inner;
        }
        std::size_t used = 0;
        double value = std::stod(text_.substr(at_), &used);
        at_ += used;
        return Number{value};
    }

    std::string text_;
    std::size_t at_ = 0;
};

double evaluate(const Node& node) {
    struct Visitor {
        double operator()(const Number& n) const { return n.value; }
        double operator()(const std::unique_ptr<Negate>& n) const { return -evaluate(n->operand); }
        double operator()(const std::unique_ptr<Binary>& n) const {
            static const std::map<char, std::function<double(double, double)>> operations{
                {'+', std::plus<>()},
                {'-', std::minus<>()},
                {'*', std::multiplies<>()},
                {'/', std::divides<>()}};
            return operations.at(n->operation)(evaluate(n->left), evaluate(n->right));
        }
    };
    return std::visit(Visitor{}, node);
}

} // namespace expression

template <typename Key> class Counter {
  public:
    void add(const Key& key) { counts_[key]++; }

    std::vector<std::pair<Key, std::size_t>> most_common(std::size_t most) const {
        std::vector<std::pair<Key, std::size_t>> all(counts_.begin(), counts_.end());
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
            return std::tie(b.second, a.first) < std::tie(a.second, b.first);
        });
        if (all.size() > most) all.resize(most);
        return all;
    }

  private:
    std::unordered_map<Key, std::size_t> counts_;
};

template <typename Iterator> auto mean_and_deviation(Iterator begin, Iterator end) {
    const double n = static_cast<double>(std::distance(begin, end));
    const double mean = std::accumulate(begin, end, 0.0) / n;
    const double squares = std::inner_product(begin, end, begin, 0.0);
    return std::make_pair(mean, std::sqrt(squares / n - mean * mean));
}

template <std::size_t... I> auto fill(std::index_sequence<I...>) {
    return std::make_tuple(std::vector<std::array<int, I + 1>>(I + 3)...);
}

// A line is a sum if it begins like one; else it consists of words.
bool is_sum(const std::string& line) {
    return !line.empty() && std::string("(-0123456789").find(line.front()) != std::string::npos;
}

int main() {
    Counter<std::string> words;
    Counter<std::size_t> lengths;
    std::deque<double> values;
    std::set<std::string> failures;
    for (std::string line; std::getline(std::cin, line);) {
        if (is_sum(line)) {
            try {
                values.push_back(expression::evaluate(expression::Parser(line).parse()));
            } catch (const std::exception& error) {
                failures.insert(line + ": " + error.what());
            }
            continue;
        }
        std::istringstream text(line);
        for (std::string word; text >> word;) {
            words.add(word);
            lengths.add(word.size());
        }
    }
    std::vector<std::thread> threads;
    std::vector<double> samples(40000);
    for (unsigned part = 0; part < 4; part++)
        threads.emplace_back([&samples, part] {
            std::mt19937 random(part);
            std::normal_distribution<double> normal(part);
            std::generate_n(samples.begin() + part * 10000, 10000, [&] { return normal(random); });
        });
    for (auto& thread : threads) thread.join();
    const auto [mean, deviation] = mean_and_deviation(samples.begin(), samples.end());
    const auto arrays = fill(std::make_index_sequence<24>());
    std::cout << std::fixed << std::setprecision(3) << "samples " << mean << " +- " << deviation
              << '\n';
    for (const auto& [text, count] : words.most_common(10))
        std::cout << std::setw(8) << count << "  " << text << '\n';
    for (double value : values) std::cout << value << '\n';
    for (const auto& failure : failures) std::cerr << failure << '\n';
    return static_cast<int>(std::get<5>(arrays).size()) - 8;
}
