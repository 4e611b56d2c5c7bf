// The loop of a small game, with a hitch: every 60th frame saves a replay and requests a block of
// 24 MiB for it. docs/guide/blame.md records this program, finds the line and repairs it. With the
// argument `fixed`, the block is requested once.
//
//     c++ -O2 -g -o game game.cpp
//     keel record --stacks 16 -- ./game
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// The recorder defines it; without the recorder it is NULL.
extern "C" __attribute__((weak)) void kl_record_frame_now(void);

struct Particle {
    float x = 0, y = 0;
};

static std::vector<std::unique_ptr<Particle>> particles;

static void spawn_particles() {
    for (int i = 0; i < 40; i++) particles.push_back(std::make_unique<Particle>());
    if (particles.size() > 400) particles.erase(particles.begin(), particles.begin() + 100);
}

static size_t draw_labels(int frame) {
    size_t characters = 0;
    for (int i = 0; i < 60; i++) {
        std::string label = "score of player number " + std::to_string(frame * i);
        characters += label.size();
    }
    return characters;
}

static const size_t replay_bytes = size_t{24} << 20;
static char* replay;

static void save_replay(bool keeps_block) {
    if (!keeps_block || replay == nullptr) {
        free(replay);
        replay = static_cast<char*>(malloc(replay_bytes));
    }
    memset(replay, 1, replay_bytes);
}

int main(int count, char** arguments) {
    bool is_fixed = count > 1 && strcmp(arguments[1], "fixed") == 0;
    if (is_fixed) save_replay(true); // before the first frame
    size_t characters = 0;
    for (int frame = 0; frame < 180; frame++) {
        spawn_particles();
        characters += draw_labels(frame);
        if (frame % 60 == 59) save_replay(is_fixed);
        if (kl_record_frame_now) kl_record_frame_now();
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
    }
    return characters == 0;
}
