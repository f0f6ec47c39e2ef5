#include <cstdio>
#include <pugixml.hpp>

int main() {
    pugi::xml_document document;
    document.load_string("<a><b n='2'/><b n='5'/></a>");
    std::printf("%g\n", pugi::xpath_query("sum(//b/@n)").evaluate_number(document));
}
