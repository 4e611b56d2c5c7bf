// culprit: draw_label by churn
// A label is formatted again in every frame.
#include <memory>
#include <string>
#include <vector>

__attribute__((noinline)) static size_t draw_label(int score) {
    std::string label = "the score of the first player is " + std::to_string(score);
    return label.size();
}

int main() {
    std::vector<std::unique_ptr<int>> objects;
    size_t size = 0;
    for (int frame = 0; frame < 3000; frame++) {
        objects.push_back(std::make_unique<int>(frame));
        for (int i = 0; i < 5; i++) size += draw_label(frame + i);
    }
    return size == 0;
}
