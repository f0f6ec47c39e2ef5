#include <fmt/chrono.h>
#include <fmt/core.h>

int main() { fmt::print("{:>6.2f}|{:#x}|{:%H:%M:%S}|{}\n", 3.14159, 255, std::chrono::seconds(3661), 0.1 + 0.2); }
