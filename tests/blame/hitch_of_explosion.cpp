// culprit: explode by over
// One frame makes many small objects in a list of the C++ library.
#include "frames.h"

#include <list>
#include <memory>
#include <vector>

struct Spark {
    float position[3], speed[3];
};

__attribute__((noinline)) static void explode(std::list<Spark>& sparks) {
    for (int i = 0; i < 300000; i++) sparks.emplace_back();
}

__attribute__((noinline)) static size_t move_objects(int frame) {
    std::vector<std::unique_ptr<Spark>> moved;
    for (int i = 0; i < 100; i++) moved.push_back(std::make_unique<Spark>());
    return moved.size() + static_cast<size_t>(frame);
}

int main() {
    std::list<Spark>& sparks = *new std::list<Spark>;
    size_t moved = 0;
    for (int frame = 0; frame < 100; frame++) {
        moved += move_objects(frame);
        if (frame == 50) explode(sparks);
        end_frame();
    }
    return moved == 0;
}
