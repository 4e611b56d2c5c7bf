// Calls the 8 forms of operator new and delete 10 times each, with a different size for each form:
// 1001, 1003 ... 1015.
#include <cstddef>
#include <new>

template <typename T> static T* kept(T* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

int main() {
    const std::align_val_t line{64};
    for (int i = 0; i < 10; i++) {
        void* a = kept(::operator new(1001));
        ::operator delete (a, std::size_t{1001});
        void* b = kept(::operator new[](1003));
        ::operator delete[](b);
        void* c = kept(::operator new(1005, std::nothrow));
        ::operator delete(c, std::nothrow);
        void* d = kept(::operator new[](1007, std::nothrow));
        ::operator delete[](d, std::nothrow);
        void* e = kept(::operator new(1009, line));
        ::operator delete (e, std::size_t{1009}, line);
        void* f = kept(::operator new[](1011, line));
        ::operator delete[](f, line);
        void* g = kept(::operator new(1013, line, std::nothrow));
        ::operator delete(g, line, std::nothrow);
        void* h = kept(::operator new[](1015, line, std::nothrow));
        ::operator delete[](h, line, std::nothrow);
    }
    try {
        kept(::operator new(static_cast<std::size_t>(-1) >> 1));
    } catch (const std::bad_alloc&) {
        return 0; // the exception came through the recorder
    }
    return 1;
}
