// culprit: render_report by peak
// A report is assembled in one string, which grows in the C++ library.
#include <string>
#include <vector>

__attribute__((noinline)) static std::string render_report(int lines) {
    std::string report;
    for (int i = 0; i < lines; i++) report += "a line of the report, number " + std::to_string(i);
    return report;
}

int main() {
    std::vector<char> settings(100000);
    size_t size = render_report(20000).size();
    for (int i = 0; i < 100; i++) settings.assign(100000 + i, 'x');
    return size == 0;
}
