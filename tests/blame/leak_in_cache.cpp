// culprit: remembered by kept
// A cache without a limit, filled through the C++ library.
#include <cstdlib>
#include <string>
#include <unordered_map>

static std::unordered_map<int, std::string>& cache = *new std::unordered_map<int, std::string>;

__attribute__((noinline)) static const std::string& remembered(int key) {
    auto found = cache.find(key);
    if (found == cache.end()) found = cache.emplace(key, std::string(90, 'x')).first;
    return found->second;
}

int main() {
    size_t sum = 0;
    for (int i = 0; i < 20000; i++) {
        std::string request(200, 'r');
        sum += remembered(i).size() + request.size();
    }
    return sum == 0;
}
