#include <cstdio>
#include <snappy.h>
#include <string>

int main() {
    std::string text(100000, 'a'), packed, back;
    snappy::Compress(text.data(), text.size(), &packed);
    bool whole = snappy::Uncompress(packed.data(), packed.size(), &back);
    std::printf("%d %s\n", whole && back == text, packed.size() < 10000 ? "smaller" : "not smaller");
}
