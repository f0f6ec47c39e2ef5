#include "engine.hpp"

#include <ctime>

static const char *const CODES[] = {"SUCCESS",     "FAILED",       "INVALID_PARAMETER", "MEMORY_ERROR", "OPERATION_FORBIDDEN",
                                    "NULL_PTR",    "INVALID_FILE", "UNAVALIDABLE_DEVICE", "INVALID_PATH", "TIMEOUT",
                                    "UNSUPPORTED", "CONNECTION_EXCEPTION", "SAVE_CACHE_EXCEPTION", "DYNAMIC_SHAPE",
                                    "UNAVAILABLE_DEVICE"};

static std::string sentence(const std::string &function, int code) {
    if (code < 0) return function + " failed, it gave no handle.";
    std::string name = code < static_cast<int>(sizeof CODES / sizeof *CODES) ? CODES[code] : "unknown";
    return function + " failed, ret: " + std::to_string(code) + " (" + name + ").";
}

CallFailed::CallFailed(const std::string &function, int given) : runtime_error(sentence(function, given)), code(given) {}

void check(OH_NN_ReturnCode code, const char *function) {
    if (code != OH_NN_SUCCESS) throw CallFailed(function, code);
}

double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

std::vector<Device> list_devices() {
    const size_t *ids = nullptr;
    uint32_t count = 0;
    CALL(OH_NNDevice_GetAllDevicesID, &ids, &count);
    std::vector<Device> devices;
    for (uint32_t i = 0; ids && i < count; i++) {
        const char *name = nullptr;
        OH_NN_DeviceType type = OH_NN_OTHERS;
        CALL(OH_NNDevice_GetName, ids[i], &name);
        CALL(OH_NNDevice_GetType, ids[i], &type);
        devices.push_back({ids[i], name ? name : "", type});
    }
    return devices;
}

void finish_model(OH_NNModel *model, const Network &network) {
    // Data of constants and parameters must be there before the operation that reads them is added.
    for (uint32_t i = 0; i < network.tensors.size(); i++) {
        const NetTensor &tensor = network.tensors[i];
        if (!tensor.data.empty() && !network.is_input(i))
            CALL(OH_NNModel_SetTensorData, model, i, tensor.data.data(), tensor.data.size());
    }
    for (const NetOperation &operation : network.operations) {
        OH_NN_UInt32Array parameters = array_of(operation.parameters), inputs = array_of(operation.inputs),
                          outputs = array_of(operation.outputs);
        CALL(OH_NNModel_AddOperation, model, operation.type, &parameters, &inputs, &outputs);
    }
    OH_NN_UInt32Array inputs = array_of(network.inputs), outputs = array_of(network.outputs);
    CALL(OH_NNModel_SpecifyInputsAndOutputs, model, &inputs, &outputs);
    CALL(OH_NNModel_Finish, model);
}

size_t count_supported(OH_NNModel *model, size_t device) {
    const bool *supported = nullptr;
    uint32_t count = 0;
    size_t yes = 0;
    CALL(OH_NNModel_GetAvailableOperations, model, device, &supported, &count);
    for (uint32_t i = 0; supported && i < count; i++) yes += supported[i];
    return yes;
}

// Options are only touched when they were asked for: a device without the capability refuses the call or the build.
void compile(OH_NNCompilation *compilation, const Device &device, const Options &options) {
    CALL(OH_NNCompilation_SetDevice, compilation, device.id);
    if (!options.cache.empty()) CALL(OH_NNCompilation_SetCache, compilation, options.cache.c_str(), options.cache_version);
    if (options.performance)
        CALL(OH_NNCompilation_SetPerformanceMode, compilation, static_cast<OH_NN_PerformanceMode>(options.performance));
    if (options.priority) CALL(OH_NNCompilation_SetPriority, compilation, static_cast<OH_NN_Priority>(options.priority));
    if (options.half) CALL(OH_NNCompilation_EnableFloat16, compilation, true);
    CALL(OH_NNCompilation_Build, compilation);
}
