// The NNRt API as this program uses it; engine_api9.cpp and engine_api11.cpp say the same things in the two styles.
#ifndef OHFORGE_NNRT_ENGINE_HPP
#define OHFORGE_NNRT_ENGINE_HPP

#include <stdexcept>
#include <string>
#include <vector>

#include "network.hpp"

struct Device {
    size_t id;
    std::string name;
    OH_NN_DeviceType type;
};

struct Options {
    std::string network = "add", device, cache;
    uint32_t cache_version = 1;
    int performance = 0, priority = 0, loops = 1, values = 51;
    bool half = false, list = false;
};

// A call that gave something other than success. A `code` of -1: it gave no handle.
struct CallFailed : std::runtime_error {
    CallFailed(const std::string &function, int code);
    int code;
};

const char *style();  // "API 9" or "API 11"
std::vector<Device> list_devices();

struct Run {
    std::vector<std::vector<float>> outputs;
    std::vector<std::vector<int32_t>> shapes;
    std::vector<double> milliseconds;
    size_t supported = 0;  // operations that the device takes
    double build_ms = 0;
};

// Builds, compiles and executes the network on the device. Throws CallFailed.
Run run_network(const Network &network, const Device &device, const Options &options);

double now_ms();

// For the two styles.
void check(OH_NN_ReturnCode code, const char *function);
template <typename Handle>
Handle *check(Handle *handle, const char *function) {
    if (!handle) throw CallFailed(function, -1);
    return handle;
}
#define CALL(function, ...) check(function(__VA_ARGS__), #function)

// Frees a handle with its Destroy function, whatever happened.
template <typename Handle, typename Result>
class Owned {
  public:
    Owned(Handle *handle, Result (*destroy)(Handle **)) : handle_(handle), destroy_(destroy) {}
    Owned(Owned &&other) noexcept : handle_(other.handle_), destroy_(other.destroy_) { other.handle_ = nullptr; }
    Owned(const Owned &) = delete;
    ~Owned() {
        if (handle_) destroy_(&handle_);
    }
    Handle *get() const { return handle_; }

  private:
    Handle *handle_;
    Result (*destroy_)(Handle **);
};

inline OH_NN_UInt32Array array_of(const std::vector<uint32_t> &indices) {
    return {indices.empty() ? nullptr : const_cast<uint32_t *>(indices.data()), static_cast<uint32_t>(indices.size())};
}

// What both styles share: everything from the tensors on until the compilation is built.
void finish_model(OH_NNModel *model, const Network &network);
size_t count_supported(OH_NNModel *model, size_t device);
void compile(OH_NNCompilation *compilation, const Device &device, const Options &options);

#endif
