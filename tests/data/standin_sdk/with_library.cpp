#include <iostream>
#include <stdexcept>
#include <string>

std::string name_of(int corners);

int main() {
    std::cout << name_of(4) << "\n";
    try {
        name_of(3);
    } catch (const std::out_of_range &error) {
        std::cout << error.what() << "\n";
    }
}
