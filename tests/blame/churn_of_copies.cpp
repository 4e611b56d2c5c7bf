// culprit: length_of_paths by churn
// A loop copies every element because it lacks a reference.
#include <vector>

using Path = std::vector<double>;

__attribute__((noinline)) static double length_of_paths(const std::vector<Path>& paths) {
    double sum = 0;
    for (Path path : paths) {
        for (double step : path) sum += step;
        path.clear();
    }
    return sum;
}

int main() {
    std::vector<Path> paths(50, Path(20, 1.0));
    double sum = 0;
    for (int i = 0; i < 200; i++) {
        sum += length_of_paths(paths);
        std::vector<int> scratch(5000);
        sum += scratch[i];
    }
    return sum == 0;
}
