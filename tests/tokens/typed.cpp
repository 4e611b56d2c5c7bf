// Compiled by a Clang that knows -fsanitize=alloc-token: objects of types with pointers and of
// types without are in different partitions, and never have the same address.
#include <keel/keel.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>
#include <vector>

struct Node {
    Node* next;
    long value;
};
struct Numbers {
    long value[2];
};

static int failed(const char* what) {
    printf("FAIL %s\n0 passed, 1 failed, 0 skipped\n", what);
    return 1;
}

int main() {
    Node* node = new Node;
    auto* numbers = new Numbers;
    bool are_apart = kl_partition_of(node) != 0;
    if (are_apart != (KEEL_SECURE != 0)) return failed("the flavour");
    if (are_apart && kl_partition_of(node) == kl_partition_of(numbers)) return failed("new");
    auto* more = static_cast<Node*>(malloc(10 * sizeof(Node)));
    if (kl_partition_of(more) != kl_partition_of(node)) return failed("malloc");
    more = static_cast<Node*>(realloc(more, 1000 * sizeof(Node)));
    if (kl_partition_of(more) != kl_partition_of(node)) return failed("realloc");
    auto* cleared = static_cast<Numbers*>(calloc(10, sizeof(Numbers)));
    if (kl_partition_of(cleared) != kl_partition_of(numbers)) return failed("calloc");
    free(more);
    free(cleared);
    delete node;
    delete numbers;

    // A freed object with a pointer is never where numbers are.
    std::set<void*> places;
    std::vector<Node*> nodes(20000);
    for (Node*& each : nodes) places.insert(each = new Node);
    for (Node* each : nodes) delete each;
    kl_collect(true);
    unsigned shared = 0;
    std::vector<Numbers*> other(60000);
    for (Numbers*& each : other) shared += places.count(each = new Numbers);
    for (Numbers* each : other) delete each;
    if (are_apart && shared != 0) return failed("an address was reused");
    printf("%u addresses of types with pointers were reused for others\n", shared);
    printf("1 passed, 0 failed, 0 skipped\n");
}
