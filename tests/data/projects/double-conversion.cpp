#include <cstdio>
#include <double-conversion/double-conversion.h>

int main() {
    char text[64];
    double_conversion::StringBuilder builder(text, sizeof text);
    double_conversion::DoubleToStringConverter::EcmaScriptConverter().ToShortest(5e-324, &builder);
    std::printf("%s\n", builder.Finalize());
}
