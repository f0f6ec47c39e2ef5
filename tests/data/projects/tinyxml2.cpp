#include <cstdio>
#include <tinyxml2.h>

int main() {
    tinyxml2::XMLDocument document;
    document.Parse("<a><b n='2'/><b n='5'/></a>");
    int sum = 0;
    for (auto *one = document.RootElement()->FirstChildElement("b"); one; one = one->NextSiblingElement("b"))
        sum += one->IntAttribute("n");
    std::printf("sum %d, wrong: %d\n", sum, document.Parse("<a><b></a>") == tinyxml2::XML_ERROR_MISMATCHED_ELEMENT);
}
