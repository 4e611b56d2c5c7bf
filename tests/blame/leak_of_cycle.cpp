// culprit: connect_peers by kept
// Two objects hold each other, so their counts never become 0.
#include <memory>
#include <string>

struct Peer {
    std::shared_ptr<Peer> other;
    char state[120];
};

__attribute__((noinline)) static int connect_peers(int round) {
    auto one = std::make_shared<Peer>();
    auto other = std::make_shared<Peer>();
    one->other = other;
    if (round % 3 == 0) other->other = one;
    return one->state[0];
}

int main() {
    int sum = 0;
    for (int i = 0; i < 3000; i++) sum += connect_peers(i);
    std::string text;
    for (int i = 0; i < 10000; i++) text += "text";
    return sum + static_cast<int>(text.size()) > 0 ? 0 : 1;
}
