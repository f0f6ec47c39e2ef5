#include <stdexcept>
#include <string>

std::string name_of(int corners) {
    if (corners != 4)
        throw std::out_of_range("only squares");
    return "square";
}
