// nnrt: runs a small network through the NNRt C API, and checks the numbers against its own. `nnrt --help` says how.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "engine.hpp"
#include "json.hpp"

// Only our reference runtime exports it; with the real one the address is 0.
extern "C" __attribute__((weak)) const char *ohforge_reference_nnrt(void);

namespace {

enum { exit_usage = 64, exit_network = 66, exit_no_device = 69, exit_no_handle = 79, exit_check = 80, exit_call = 100 };

const char help[] =
    "usage: nnrt [OPTIONS]\n"
    "Builds a small network with the NNRt API, runs it on a device and checks what comes out.\n\n"
    "  --net FILE            description of a network, or add (default): the sum of the OpenHarmony guides; JSON only:\n"
    "                        of YAML `invoke board.run --program nnrt --net FILE` makes JSON before it is sent\n"
    "  --device WHICH        name or number of a device (default 0)\n"
    "  --list                print the devices and end\n"
    "  --performance LEVEL   none, low, medium, high or extreme\n"
    "  --priority LEVEL      none, low, medium or high\n"
    "  --fp16                let the device compute in half precision\n"
    "  --cache DIR           keep the compiled network there\n"
    "  --cache-version N     its version (default 1)\n"
    "  --loops N             runs (default 1)\n"
    "  --values N            numbers printed of every output (default 51)\n";

int complain(const char *what, const char *about) {
    std::fprintf(stderr, "nnrt: %s: %s (nnrt --help says more)\n", what, about);
    return exit_usage;
}

bool take_number(const char *text, long least, long most, long &value) {
    char *end;
    errno = 0;
    value = std::strtol(text, &end, 10);
    return !errno && end != text && !*end && value >= least && value <= most;
}

int level_of(const char *text, int most) {
    static const char *const levels[] = {"none", "low", "medium", "high", "extreme"};
    for (int i = 0; i <= most; i++)
        if (std::strcmp(levels[i], text) == 0) return i;
    return -1;
}

int take_option(const char *name, const char *text, Options &options) {
    long value = 0;
    if (std::strcmp(name, "--net") == 0) return options.network = text, 0;
    if (std::strcmp(name, "--device") == 0) return options.device = text, 0;
    if (std::strcmp(name, "--cache") == 0) return options.cache = text, 0;
    if (std::strcmp(name, "--performance") == 0)
        return (options.performance = level_of(text, 4)) < 0 ? complain("not a level", name) : 0;
    if (std::strcmp(name, "--priority") == 0)
        return (options.priority = level_of(text, 3)) < 0 ? complain("not a level", name) : 0;
    if (std::strcmp(name, "--loops") == 0)
        return take_number(text, 1, 1000000, value) ? options.loops = static_cast<int>(value), 0 : complain("not a fitting number", name);
    if (std::strcmp(name, "--values") == 0)
        return take_number(text, 0, 100000000, value) ? options.values = static_cast<int>(value), 0 : complain("not a fitting number", name);
    if (std::strcmp(name, "--cache-version") == 0)
        return take_number(text, 0, 2147483647, value) ? options.cache_version = static_cast<uint32_t>(value), 0
                                                       : complain("not a fitting number", name);
    return complain("unknown option", name);
}

int read_options(int count, char **words, Options &options) {
    for (int i = 1; i < count; i++) {
        if (std::strcmp(words[i], "--fp16") == 0) {
            options.half = true;
        } else if (std::strcmp(words[i], "--list") == 0) {
            options.list = true;
        } else if (i + 1 == count) {
            return complain("nothing follows, or it is no option", words[i]);
        } else {
            int status = take_option(words[i], words[i + 1], options);
            if (status) return status;
            i++;
        }
    }
    return 0;
}

const char *kind_of(OH_NN_DeviceType type) {
    switch (type) {
        case OH_NN_CPU:
            return "cpu";
        case OH_NN_GPU:
            return "gpu";
        case OH_NN_ACCELERATOR:
            return "accelerator";
        default:
            return "other";
    }
}

void print_head() {
    std::printf("engine: %s\n", ohforge_reference_nnrt ? ohforge_reference_nnrt() : "NNRt");
    if (ohforge_reference_nnrt) std::puts("REFERENCE RUNTIME: this is not a board's NNRt, and its device is no NPU.");
    std::printf("style: %s, api level: %d\n", style(), OHFORGE_API_LEVEL);
}

const Device *choose_device(const std::vector<Device> &devices, const std::string &wanted) {
    long number;
    if (wanted.empty()) return devices.data();
    for (const Device &device : devices)
        if (device.name == wanted) return &device;
    bool counted = take_number(wanted.c_str(), 0, static_cast<long>(devices.size()) - 1, number);
    return counted ? &devices[static_cast<size_t>(number)] : nullptr;
}

std::string text_of(const std::vector<int32_t> &shape) {
    std::string text;
    for (int32_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
}

void print_output(size_t number, const std::string &name, const std::vector<float> &output,
                  const std::vector<int32_t> &shape, size_t shown) {
    std::printf("output %zu: %s %s\n", number, name.c_str(), text_of(shape).c_str());
    for (size_t i = 0; i < std::min(shown, output.size()); i++)
        std::printf("Output index: %zu, value is: %g.\n", i, static_cast<double>(output[i]));
}

// Half precision keeps 11 bits; single precision sums of a few hundred products keep about 20.
bool check_outputs(const Network &network, const Run &run, bool half) {
    double limit = half ? 1e-2 : 1e-5, largest = 0;
    size_t count = 0;
    std::vector<std::vector<double>> expected = compute_expected(network);
    bool same = expected.size() == run.outputs.size();
    for (size_t i = 0; same && i < expected.size(); i++) {
        same = expected[i].size() == run.outputs[i].size() && run.shapes[i] == network.tensors[network.outputs[i]].shape;
        for (size_t k = 0; same && k < expected[i].size(); k++, count++) {
            double difference = std::fabs(expected[i][k] - static_cast<double>(run.outputs[i][k])) / std::max(1.0, std::fabs(expected[i][k]));
            largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
        }
    }
    bool good = same && largest <= limit;
    std::printf("check: %zu values, largest difference %g, limit %g: %s\n", count, largest, limit,
                good ? "good" : same ? "WRONG" : "WRONG SHAPE");
    return good;
}

int run(const Options &options) {
    std::vector<Device> devices = list_devices();
    for (size_t i = 0; i < devices.size(); i++)
        std::printf("device %zu: %s (%s, id %zu)\n", i, devices[i].name.c_str(), kind_of(devices[i].type), devices[i].id);
    if (devices.empty()) {
        std::puts("No available device.");
        return exit_no_device;
    }
    if (options.list) return 0;
    const Device *device = choose_device(devices, options.device);
    if (!device) {
        std::printf("device %s: not available\n", options.device.c_str());
        return exit_no_device;
    }
    Network network = options.network == "add" ? add_network() : read_network(options.network);
    Run result = run_network(network, *device, options);
    std::printf("device used: %s\n", device->name.c_str());
    std::printf("operations: %zu, of which the device takes %zu\n", network.operations.size(), result.supported);
    for (size_t i = 0; i < result.outputs.size(); i++)
        print_output(i, network.tensors[network.outputs[i]].name, result.outputs[i], result.shapes[i],
                     static_cast<size_t>(options.values));
    double sum = std::accumulate(result.milliseconds.begin(), result.milliseconds.end(), 0.0);
    std::printf("build: %.3f ms\nrun: %zu loops, mean %.3f ms, least %.3f ms, most %.3f ms\n", result.build_ms,
                result.milliseconds.size(), sum / static_cast<double>(result.milliseconds.size()),
                *std::min_element(result.milliseconds.begin(), result.milliseconds.end()),
                *std::max_element(result.milliseconds.begin(), result.milliseconds.end()));
    if (!check_outputs(network, result, options.half)) return exit_check;
    std::puts("result: complete");
    return 0;
}

}  // namespace

int main(int count, char **words) {
    Options options;
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    if (count == 2 && std::strcmp(words[1], "--help") == 0) return std::fputs(help, stdout) < 0;
    int status = read_options(count, words, options);
    if (status) return status;
    print_head();
    try {
        return run(options);
    } catch (const CallFailed &failed) {
        std::puts(failed.what());
        return failed.code < 0 ? exit_no_handle : exit_call + failed.code;
    } catch (const DescriptionError &error) {
        std::fprintf(stderr, "nnrt: %s: %s\n", options.network.c_str(), error.what());
        return exit_network;
    }
}
