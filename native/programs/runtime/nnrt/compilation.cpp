// OH_NNCompilation_*: from a model to something that a device runs. Most rules differ between 3.2 and 5.0.
#include <sys/stat.h>

#include <new>

#include "cache.hpp"
#include "graph.hpp"

using namespace reference;

OH_NNCompilation *OH_NNCompilation_Construct(const OH_NNModel *model) {
    if (!model || (!new_rules && !model->finished)) return nullptr;
    OH_NNCompilation *compilation = new (std::nothrow) OH_NNCompilation;
    if (!compilation) return nullptr;
    compilation->model = model;
    if (!new_rules) compilation->graph = std::make_shared<Graph>(*model->graph);
    return compilation;
}

void OH_NNCompilation_Destroy(OH_NNCompilation **compilation) {
    if (!compilation) return;
    delete *compilation;
    *compilation = nullptr;
}

static bool all_supported(const Graph &graph) {
    for (const Operation &operation : graph.operations)
        if (!computes(operation.type) || reference_refuses(operation.type)) return false;
    return true;
}

OH_NN_ReturnCode OH_NNCompilation_SetDevice(OH_NNCompilation *compilation, size_t device) {
    if (!compilation) return OH_NN_INVALID_PARAMETER;
    if (!new_rules) {
        if (compilation->built || compilation->device) return OH_NN_OPERATION_FORBIDDEN;
        if (!reference_device_by_id(device)) return OH_NN_INVALID_PARAMETER;
        if (!all_supported(*compilation->graph) || (compilation->graph->dynamic() && !reference_capability("dynamic"))) {
            reference_note("nnrt current device not support the model");
            return OH_NN_FAILED;
        }
    }
    compilation->device = device;
    return OH_NN_SUCCESS;
}

// 3.2 looks at the order of calls and at the device's capability at once, 5.0 only when it builds.
static OH_NN_ReturnCode check_option(const OH_NNCompilation *compilation, const char *capability) {
    if (!compilation) return OH_NN_INVALID_PARAMETER;
    if (new_rules) return OH_NN_SUCCESS;
    bool allowed = compilation->device && !compilation->built && reference_capability(capability);
    return allowed ? OH_NN_SUCCESS : OH_NN_OPERATION_FORBIDDEN;
}

OH_NN_ReturnCode OH_NNCompilation_SetPerformanceMode(OH_NNCompilation *compilation, OH_NN_PerformanceMode mode) {
    OH_NN_ReturnCode code = check_option(compilation, "performance");
    if (code != OH_NN_SUCCESS) return code;
    if (mode < OH_NN_PERFORMANCE_NONE || mode > OH_NN_PERFORMANCE_EXTREME) return OH_NN_INVALID_PARAMETER;
    compilation->performance = mode;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNCompilation_SetPriority(OH_NNCompilation *compilation, OH_NN_Priority priority) {
    OH_NN_ReturnCode code = check_option(compilation, "priority");
    if (code != OH_NN_SUCCESS) return code;
    if (priority < OH_NN_PRIORITY_NONE || priority > OH_NN_PRIORITY_HIGH) return OH_NN_INVALID_PARAMETER;
    compilation->priority = priority;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNCompilation_EnableFloat16(OH_NNCompilation *compilation, bool half) {
    OH_NN_ReturnCode code = check_option(compilation, "fp16");
    if (code == OH_NN_SUCCESS) compilation->half = half;
    return code;
}

OH_NN_ReturnCode OH_NNCompilation_SetCache(OH_NNCompilation *compilation, const char *path, uint32_t version) {
    if (!compilation || !path || version == UINT32_MAX) return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_option(compilation, "cache");
    if (code != OH_NN_SUCCESS) return code;
    struct stat status;
    if (!new_rules && (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))) return OH_NN_INVALID_PARAMETER;
    compilation->cache = new_rules ? "" : path;
    compilation->late_cache = new_rules ? path : nullptr;
    compilation->cache_version = version;
    return OH_NN_SUCCESS;
}

static OH_NN_ReturnCode finish_build(OH_NNCompilation *compilation) {
    std::string why;
    std::vector<Value> values = start_values(*compilation->graph);
    for (uint32_t index : compilation->graph->inputs) {
        values[index].type = compilation->graph->tensors[index].description.type;
        values[index].shape = compilation->graph->tensors[index].description.shape;
    }
    if (!compilation->graph->dynamic() && !compute(*compilation->graph, values, true, nullptr, why)) {
        reference_note("nnrt cannot compile the model: %s", why.c_str());
        return OH_NN_FAILED;
    }
    if (!compilation->cache.empty()) {
        OH_NN_ReturnCode code =
            use_cache(compilation->cache, compilation->cache_version, *compilation->device, *compilation->graph);
        if (code != OH_NN_SUCCESS) return code;
    }
    if (compilation->half) reference_note("nnrt fp16 was asked for, computing in float32");
    reference_note("nnrt device=%s", reference_device_by_id(*compilation->device)->name);
    compilation->built = true;
    return OH_NN_SUCCESS;
}

static OH_NN_ReturnCode build_by_old_rules(OH_NNCompilation *compilation) {
    if (compilation->built || !compilation->device) return OH_NN_OPERATION_FORBIDDEN;
    return finish_build(compilation);
}

static bool lacks(bool wanted, const char *capability) { return wanted && !reference_capability(capability); }

static OH_NN_ReturnCode build_by_new_rules(OH_NNCompilation *compilation) {
    if (compilation->build_tried) return OH_NN_INVALID_PARAMETER;
    compilation->build_tried = true;
    if (compilation->offline) return OH_NN_FAILED;
    if (!compilation->model->finished) return OH_NN_INVALID_PARAMETER;
    if (!compilation->device && reference_device_count()) compilation->device = reference_device(0)->id;
    if (!compilation->device || !reference_device_by_id(*compilation->device)) return OH_NN_FAILED;
    compilation->graph = std::make_shared<Graph>(*compilation->model->graph);
    if (!all_supported(*compilation->graph) || lacks(compilation->graph->dynamic(), "dynamic")) {
        reference_note("nnrt current device not support the model");
        return OH_NN_FAILED;
    }
    if (lacks(compilation->performance != OH_NN_PERFORMANCE_NONE, "performance") ||
        lacks(compilation->priority != OH_NN_PRIORITY_NONE, "priority") || lacks(compilation->half, "fp16") ||
        lacks(compilation->late_cache != nullptr, "cache"))
        return OH_NN_OPERATION_FORBIDDEN;
    if (compilation->late_cache) compilation->cache = compilation->late_cache;
    return finish_build(compilation);
}

OH_NN_ReturnCode OH_NNCompilation_Build(OH_NNCompilation *compilation) {
    if (!compilation) return OH_NN_INVALID_PARAMETER;
    try {
        return new_rules ? build_by_new_rules(compilation) : build_by_old_rules(compilation);
    } catch (const std::bad_alloc &) {
        return OH_NN_MEMORY_ERROR;
    }
}

#if OHFORGE_API_LEVEL >= 11
// Offline models belong to one maker's device; there is no such device here, so they are taken and never built.
static OH_NNCompilation *construct_offline(bool given) {
    OH_NNCompilation *compilation = given ? new (std::nothrow) OH_NNCompilation : nullptr;
    if (compilation) compilation->offline = true;
    return compilation;
}

OH_NNCompilation *OH_NNCompilation_ConstructWithOfflineModelFile(const char *path) {
    return construct_offline(path && *path);
}

OH_NNCompilation *OH_NNCompilation_ConstructWithOfflineModelBuffer(const void *buffer, size_t size) {
    return construct_offline(buffer && size);
}

OH_NNCompilation *OH_NNCompilation_ConstructForCache(void) { return construct_offline(true); }

OH_NN_ReturnCode OH_NNCompilation_ExportCacheToBuffer(OH_NNCompilation *compilation, const void *buffer, size_t length,
                                                      size_t *size) {
    if (!compilation || !buffer || !length || !size || !compilation->built) return OH_NN_INVALID_PARAMETER;
    return OH_NN_UNSUPPORTED;
}

OH_NN_ReturnCode OH_NNCompilation_ImportCacheFromBuffer(OH_NNCompilation *compilation, const void *buffer, size_t size) {
    if (!compilation || !buffer || !size) return OH_NN_INVALID_PARAMETER;
    compilation->offline = true;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNCompilation_AddExtensionConfig(OH_NNCompilation *compilation, const char *name, const void *value,
                                                     const size_t size) {
    return compilation && name && *name && value && size ? OH_NN_SUCCESS : OH_NN_INVALID_PARAMETER;
}
#endif
