#include "graph.hpp"

#include <cstring>

namespace reference {

size_t item_bytes(OH_NN_DataType type) {
    switch (type) {
        case OH_NN_BOOL:
        case OH_NN_INT8:
        case OH_NN_UINT8:
            return 1;
        case OH_NN_INT16:
        case OH_NN_UINT16:
        case OH_NN_FLOAT16:
            return 2;
        case OH_NN_INT32:
        case OH_NN_UINT32:
        case OH_NN_FLOAT32:
            return 4;
        case OH_NN_INT64:
        case OH_NN_UINT64:
        case OH_NN_FLOAT64:
            return 8;
        default:
            return 0;
    }
}

bool valid_shape(const int32_t *shape, size_t rank) {
    for (size_t axis = 0; axis < rank; axis++)
        if (shape[axis] != -1 && shape[axis] <= 0) return false;
    return true;
}

bool Description::dynamic() const {
    for (int32_t size : shape)
        if (size < 0) return true;
    return false;
}

std::optional<size_t> Description::cells() const {
    uint64_t count = 1;
    for (int32_t size : shape) {
        if (size < 0) return std::nullopt;
        count *= static_cast<uint64_t>(size);
        if (count > UINT32_MAX) return std::nullopt;
    }
    return static_cast<size_t>(count);
}

std::optional<size_t> Description::bytes() const {
    std::optional<size_t> count = cells();
    uint64_t bytes = count ? uint64_t{*count} * item_bytes(type) : 0;
    if (!count || bytes > UINT32_MAX) return std::nullopt;
    return static_cast<size_t>(bytes);
}

bool Graph::dynamic() const {
    for (uint32_t index : inputs)
        if (tensors[index].description.dynamic()) return true;
    return false;
}

size_t Value::count() const {
    size_t count = 1;
    for (int32_t size : shape) count *= static_cast<size_t>(size);
    return count;
}

std::vector<Value> start_values(const Graph &graph) {
    std::vector<Value> values(graph.tensors.size());
    for (size_t i = 0; i < values.size(); i++) {
        const ModelTensor &tensor = graph.tensors[i];
        if (!tensor.has_data) continue;
        values[i].type = tensor.description.type;
        values[i].shape = tensor.description.shape;
        values[i].cells = tensor.data.data();
    }
    return values;
}

}  // namespace reference
