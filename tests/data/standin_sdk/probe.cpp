// One line for each part of the C++ runtime that a stand-in SDK can get wrong.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

thread_local int mine = 40;

// Adds this thread's value to the total when the thread ends: destructor order and emulated TLS at once.
struct AtEnd {
    std::atomic<int> *total = nullptr;
    ~AtEnd() {
        if (total != nullptr)
            *total += mine;
    }
};

void work(std::atomic<int> &total, int number) {
    thread_local AtEnd at_end;
    at_end.total = &total;
    mine += number;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3)
        return EXIT_FAILURE;
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        std::cout << "exception " << error.what() << "\n";
    }
    std::atomic<int> total{0};
    std::vector<std::thread> threads;
    for (int number = 1; number <= 4; number++)
        threads.emplace_back(work, std::ref(total), number);
    for (auto &thread : threads)
        thread.join();
    std::cout << "threads " << total << " main " << mine << "\n";
    const std::string line = "rate: 12.5 t/s";
    std::smatch match;
    if (std::regex_search(line, match, std::regex("([0-9]+)\\.([0-9]+)")))
        std::cout << "regex " << match[1] << " and " << match[2] << "\n";
    const auto file = std::filesystem::path(argv[1]) / "probe.txt";
    std::ofstream(file) << "twelve bytes";
    std::cout << "filesystem " << file.filename().string() << " " << std::filesystem::file_size(file) << "\n";
    std::cout << "sin " << std::sin(std::atof(argv[2])) << "\n";
    return 0;
}
