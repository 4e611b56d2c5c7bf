// Builds and changes a tree of named nodes, and prints it as text: a C++ program for programs.py.
// Strings, vectors, maps and shared pointers, as most programs use them.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

struct Node {
    std::string name;
    std::map<std::string, std::string> properties;
    std::vector<std::shared_ptr<Node>> children;
};

static uint64_t state = 7;

static uint64_t next() {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

static std::shared_ptr<Node> build(int depth) {
    auto node = std::make_shared<Node>();
    node->name = "node of the scene " + std::to_string(next());
    for (int i = 0; i < 4; i++) {
        node->properties["property number " + std::to_string(i)] = std::to_string(next());
    }
    if (depth == 0) return node;
    for (int i = 0; i < 6; i++) node->children.push_back(build(depth - 1));
    return node;
}

static void print(const Node& node, const std::string& path, std::string& text) {
    std::string own = path + "/" + node.name;
    for (const auto& [name, value] : node.properties) text += own + "." + name + "=" + value + "\n";
    for (const auto& child : node.children) print(*child, own, text);
}

static void change(Node& node, std::unordered_map<std::string, int>& names) {
    names[node.name]++;
    if (next() % 8 == 0) node.children.clear();
    if (next() % 8 == 0) node.children.push_back(build(1));
    for (auto& child : node.children) change(*child, names);
}

int main() {
    size_t bytes = 0;
    for (int round = 0; round < 4; round++) {
        auto scene = build(5);
        std::unordered_map<std::string, int> names;
        change(*scene, names);
        std::string text;
        print(*scene, "", text);
        bytes += text.size() + names.size();
    }
    printf("%zu\n", bytes);
    return 0;
}
