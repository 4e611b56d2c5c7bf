// A small engine: a world of objects that appear and disappear, a loader thread that loads levels,
// and a frame loop. All its memory comes from mem.h, which calls Keel's recorder.
//
//   engine FRAMES [SPOOL]     runs FRAMES frames; with SPOOL, records itself into that file
//
// Prints the number of its operations, which can be compared with the journal.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "keel/recorder.h"
#include "mem.h"

namespace {

// The engine's containers use the engine's memory.
template <typename T> struct Allocator {
    using value_type = T;
    Allocator() = default;
    template <typename U> explicit Allocator(const Allocator<U>&) {}
    T* allocate(std::size_t count) {
        void* block = mem::alloc(count * sizeof(T));
        if (block == nullptr) std::abort();
        return static_cast<T*>(block);
    }
    void deallocate(T* block, std::size_t) { mem::release(block); }
};
template <typename T, typename U> bool operator==(const Allocator<T>&, const Allocator<U>&) {
    return true;
}
template <typename T, typename U> bool operator!=(const Allocator<T>&, const Allocator<U>&) {
    return false;
}
template <typename T> using Vector = std::vector<T, Allocator<T>>;

struct Random {
    unsigned state;
    unsigned below(unsigned limit) {
        state = state * 1664525u + 1013904223u;
        return (state >> 8) % limit;
    }
};

struct Object {
    float place[3];
    char* name;
    unsigned last_frame; // in which it disappears
};

Object* object_make(Random& random, unsigned frame) {
    Object* object = static_cast<Object*>(mem::alloc_cleared(sizeof(Object)));
    object->last_frame = frame + 1 + random.below(90);
    object->name = static_cast<char*>(mem::alloc(8 + random.below(40)));
    std::strcpy(object->name, "object");
    return object;
}

void object_destroy(Object* object) {
    mem::release(object->name);
    mem::release(object);
}

// Loads a level into a buffer that grows, as a decompressor's does. The frame loop frees the
// buffer.
std::atomic<char*> level;

void load_levels(unsigned count) {
    kl_record_thread_name("level loader");
    for (unsigned number = 1; number <= count; number++) {
        char* buffer = nullptr;
        for (std::size_t bytes = 1 << 10; bytes <= std::size_t{256} << 10; bytes *= 2) {
            buffer = static_cast<char*>(mem::resize(buffer, bytes));
            std::memset(buffer + bytes / 2, static_cast<int>(number), bytes / 2);
        }
        char text[32];
        std::snprintf(text, sizeof text, "level %u", number);
        kl_record_mark(text);
        char* none = nullptr;
        while (!level.compare_exchange_weak(none, buffer)) {
            none = nullptr;
            std::this_thread::yield();
        }
    }
}

void run(unsigned frames, unsigned levels) {
    Random random{7};
    Vector<Object*> objects;
    char* current = nullptr;
    unsigned taken = 0;
    for (unsigned frame = 0; frame < frames || taken < levels; frame++) {
        if (char* loaded = level.exchange(nullptr)) {
            mem::release(current);
            current = loaded;
            taken++;
        }
        if (frame < frames) {
            Vector<float> visible; // temporary memory of a frame
            for (const Object* object : objects) visible.push_back(object->place[0]);
            for (unsigned created = random.below(40); created > 0; created--) {
                objects.push_back(object_make(random, frame));
            }
            for (std::size_t i = 0; i < objects.size();) {
                if (objects[i]->last_frame > frame) {
                    i++;
                    continue;
                }
                object_destroy(objects[i]);
                objects[i] = objects.back();
                objects.pop_back();
            }
            kl_record_frame();
        } else {
            std::this_thread::yield();
        }
    }
    for (Object* object : objects) object_destroy(object);
    mem::release(current);
}

} // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::fputs("usage: engine FRAMES [SPOOL]\n", stderr);
        return 2;
    }
    if (count > 2) {
        const int error = kl_record_start(arguments[2]);
        if (error != 0) {
            std::fprintf(stderr, "engine: cannot record into %s: %s\n", arguments[2],
                         std::strerror(error));
            return 1;
        }
    }
    const unsigned frames = static_cast<unsigned>(std::atoi(arguments[1]));
    const unsigned levels = 5;
    std::thread loader(load_levels, levels);
    run(frames, levels);
    loader.join();
    const bool crash =
        std::getenv("ENGINE_CRASH") != nullptr; // for the test of recordings after a crash
    const mem::Counters did = mem::counters();
    std::printf("frames %u allocs %llu cleared %llu resizes %llu releases %llu\n", frames,
                static_cast<unsigned long long>(did.allocs),
                static_cast<unsigned long long>(did.cleared),
                static_cast<unsigned long long>(did.resizes),
                static_cast<unsigned long long>(did.releases));
    if (crash) {
        std::fflush(stdout);
        std::abort();
    }
    if (count > 2 && kl_record_stop() != 0) return 1;
    return 0;
}
