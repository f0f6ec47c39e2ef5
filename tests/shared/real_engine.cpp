// Runs a .ms model on the real engine, through the C++ API of the wheel mindspore-lite: usage MODEL OUT INPUT…
//
// Inputs are raw numbers. Of output i its numbers go to OUT/i.raw, and "i NAME BYTES DIM,DIM,…" to standard output; the
// last line is "median MILLISECONDS" of ENGINE_LOOPS runs on ENGINE_THREADS threads.
// Ends with 2 when the model is not taken, with 3 when the run fails.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "include/api/context.h"
#include "include/api/model.h"

static int number_of(const char *variable) {
    const char *text = std::getenv(variable);
    return text == nullptr ? 1 : std::atoi(text);
}

int main(int count, char **words) {
    if (count < 3) return 1;
    auto context = std::make_shared<mindspore::Context>();
    context->SetThreadNum(number_of("ENGINE_THREADS"));
    context->MutableDeviceInfo().push_back(std::make_shared<mindspore::CPUDeviceInfo>());
    mindspore::Model model;
    mindspore::Status status = model.Build(std::string(words[1]), mindspore::kMindIR_Lite, context);
    if (status.IsError()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 2;
    std::vector<mindspore::MSTensor> inputs = model.GetInputs(), outputs;
    for (size_t i = 0; i < inputs.size(); i++) {
        std::ifstream file(words[3 + i], std::ios::binary);
        std::string raw((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        if (raw.size() != inputs[i].DataSize()) return std::fprintf(stderr, "input %zu has another size\n", i), 1;
        std::memcpy(inputs[i].MutableData(), raw.data(), raw.size());
    }
    std::vector<double> times;
    for (int loop = 0; loop < number_of("ENGINE_LOOPS"); loop++) {
        auto begun = std::chrono::steady_clock::now();
        if (model.Predict(inputs, &outputs).IsError()) return 3;
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
    }
    std::sort(times.begin(), times.end());
    for (size_t i = 0; i < outputs.size(); i++) {
        std::ofstream file(std::string(words[2]) + "/" + std::to_string(i) + ".raw", std::ios::binary);
        file.write(static_cast<const char *>(outputs[i].MutableData()), static_cast<std::streamsize>(outputs[i].DataSize()));
        std::printf("%zu %s %zu ", i, outputs[i].Name().c_str(), outputs[i].DataSize());
        for (int64_t size : outputs[i].Shape()) std::printf("%ld,", static_cast<long>(size));
        std::printf("\n");
    }
    std::printf("median %.3f\n", times[times.size() / 2]);
    return 0;
}
