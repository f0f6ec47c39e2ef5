// OH_NNModel_* and OH_NNQuantParam_*: putting a graph together.
#include <algorithm>
#include <cstring>
#include <new>

#include "graph.hpp"

using namespace reference;

OH_NNModel *OH_NNModel_Construct(void) { return new (std::nothrow) OH_NNModel; }

void OH_NNModel_Destroy(OH_NNModel **model) {
    if (!model) return;
    delete *model;
    *model = nullptr;
}

static bool valid_type(int type) { return type >= OH_NN_UNKNOWN && type <= OH_NN_FLOAT64; }

static bool valid_role(int role) { return role >= 0 && role <= last_tensor_type; }

static OH_NN_ReturnCode add_tensor(OH_NNModel *model, ModelTensor tensor) {
    tensor.description.name = "Tensor: " + std::to_string(model->graph->tensors.size());
    model->graph->tensors.push_back(std::move(tensor));
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNModel_AddTensor(OH_NNModel *model, const OH_NN_Tensor *given) {
    if (!model || !given) return OH_NN_INVALID_PARAMETER;
    if (model->finished) return OH_NN_OPERATION_FORBIDDEN;
    bool shaped = (given->dimensionCount == 0) == (given->dimensions == nullptr);
    if (!valid_type(given->dataType) || !valid_role(given->type) || !shaped ||
        !valid_shape(given->dimensions, given->dimensionCount))
        return OH_NN_INVALID_PARAMETER;
    ModelTensor tensor;
    tensor.description.type = given->dataType;
    tensor.description.shape.assign(given->dimensions, given->dimensions + given->dimensionCount);
    tensor.role = given->type;
    if (!tensor.description.dynamic() && !tensor.description.bytes()) return OH_NN_INVALID_PARAMETER;
    if (given->quantParam) {
        const OH_NN_QuantParam &quantisation = *given->quantParam;
        if (!quantisation.numBits || !quantisation.scale || !quantisation.zeroPoint) return OH_NN_INVALID_PARAMETER;
        for (uint32_t i = 0; i < quantisation.quantCount; i++)
            if (quantisation.numBits[i] != 8) return OH_NN_INVALID_PARAMETER;
        tensor.quantisation_bits.assign(quantisation.numBits, quantisation.numBits + quantisation.quantCount);
    }
    return add_tensor(model, std::move(tensor));
}

OH_NN_ReturnCode OH_NNModel_SetTensorData(OH_NNModel *model, uint32_t index, const void *data, size_t length) {
    if (!model || !data || length == 0) return OH_NN_INVALID_PARAMETER;
    if (model->finished) return OH_NN_OPERATION_FORBIDDEN;
    if (index >= model->graph->tensors.size()) return OH_NN_INVALID_PARAMETER;
    ModelTensor &tensor = model->graph->tensors[index];
    if (tensor.description.dynamic()) return OH_NN_OPERATION_FORBIDDEN;
    std::optional<size_t> bytes = tensor.description.bytes();
    if (tensor.has_data || !bytes || *bytes != length) return OH_NN_INVALID_PARAMETER;
    const uint8_t *from = static_cast<const uint8_t *>(data);
    tensor.data.assign(from, from + length);
    tensor.has_data = true;
    return OH_NN_SUCCESS;
}

// Pointer and size both set or both empty; all numbers below the count of tensors.
static bool take_indices(const OH_NNModel *model, const OH_NN_UInt32Array *array, bool may_be_empty,
                         std::vector<uint32_t> &indices) {
    if (!array || (array->data == nullptr) != (array->size == 0) || (array->size == 0 && !may_be_empty)) return false;
    indices.assign(array->data, array->data + array->size);
    size_t count = model->graph->tensors.size();
    return std::all_of(indices.begin(), indices.end(), [count](uint32_t index) { return index < count; });
}

static bool share_one(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    return std::any_of(a.begin(), a.end(), [&b](uint32_t index) { return std::count(b.begin(), b.end(), index) > 0; });
}

static bool all_tensors(const Graph &graph, const std::vector<uint32_t> &indices) {
    return std::all_of(indices.begin(), indices.end(),
                       [&graph](uint32_t index) { return graph.tensors[index].role == OH_NN_TENSOR; });
}

OH_NN_ReturnCode OH_NNModel_AddOperation(OH_NNModel *model, OH_NN_OperationType op, const OH_NN_UInt32Array *parameters,
                                         const OH_NN_UInt32Array *inputs, const OH_NN_UInt32Array *outputs) {
    if (!model) return OH_NN_INVALID_PARAMETER;
    if (model->finished) return OH_NN_OPERATION_FORBIDDEN;
    Operation operation = {op, {}, {}, {}};
    Graph &graph = *model->graph;
    if (!take_indices(model, parameters, true, operation.parameters) ||
        !take_indices(model, inputs, false, operation.inputs) || !take_indices(model, outputs, false, operation.outputs))
        return OH_NN_INVALID_PARAMETER;
    if (static_cast<int>(op) < 1 || static_cast<int>(op) > last_operation || share_one(operation.inputs, operation.outputs) ||
        !all_tensors(graph, operation.inputs) || !all_tensors(graph, operation.outputs))
        return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_operation(graph, operation);
    if (code == OH_NN_SUCCESS) graph.operations.push_back(std::move(operation));
    return code;
}

OH_NN_ReturnCode OH_NNModel_SpecifyInputsAndOutputs(OH_NNModel *model, const OH_NN_UInt32Array *inputs,
                                                    const OH_NN_UInt32Array *outputs) {
    if (!model) return OH_NN_INVALID_PARAMETER;
    if (model->finished || model->specified) return OH_NN_OPERATION_FORBIDDEN;
    std::vector<uint32_t> in, out;
    if (!take_indices(model, inputs, false, in) || !take_indices(model, outputs, false, out) || share_one(in, out) ||
        !all_tensors(*model->graph, in) || !all_tensors(*model->graph, out))
        return OH_NN_INVALID_PARAMETER;
    model->graph->inputs = in;
    model->graph->outputs = out;
    model->specified = true;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNModel_Finish(OH_NNModel *model) {
    if (!model) return OH_NN_INVALID_PARAMETER;
    bool whole = model->specified && !model->graph->tensors.empty() && !model->graph->operations.empty();
    if (model->finished || !whole) return OH_NN_OPERATION_FORBIDDEN;
    model->finished = true;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNModel_GetAvailableOperations(OH_NNModel *model, size_t device, const bool **supported,
                                                   uint32_t *count) {
    if (!model || !supported || *supported || !count) return OH_NN_INVALID_PARAMETER;
    if (!model->finished) return OH_NN_OPERATION_FORBIDDEN;
    if (!reference_device_by_id(device)) return OH_NN_FAILED;
    const std::vector<Operation> &operations = model->graph->operations;
    model->supported = std::make_unique<bool[]>(operations.size());
    for (size_t i = 0; i < operations.size(); i++)
        model->supported[i] = computes(operations[i].type) && !reference_refuses(operations[i].type);
    *supported = model->supported.get();
    *count = static_cast<uint32_t>(operations.size());
    return OH_NN_SUCCESS;
}

#if OHFORGE_API_LEVEL >= 11
OH_NN_ReturnCode OH_NNModel_AddTensorToModel(OH_NNModel *model, const NN_TensorDesc *description) {
    if (!model || !description) return OH_NN_INVALID_PARAMETER;
    const Description &given = description->description;
    if (!given.dynamic() && !given.bytes()) return OH_NN_INVALID_PARAMETER;
    ModelTensor tensor;
    tensor.description = given;
    return add_tensor(model, std::move(tensor));  // The real runtime does not look whether the model is finished.
}

OH_NN_ReturnCode OH_NNModel_SetTensorType(OH_NNModel *model, uint32_t index, OH_NN_TensorType role) {
    if (!model || !valid_role(role)) return OH_NN_INVALID_PARAMETER;
    if (model->finished) return OH_NN_OPERATION_FORBIDDEN;
    if (index >= model->graph->tensors.size()) return OH_NN_INVALID_PARAMETER;
    model->graph->tensors[index].role = role;
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNModel_SetTensorQuantParams(OH_NNModel *model, uint32_t index, NN_QuantParam *quantisation) {
    if (!model || !quantisation) return OH_NN_INVALID_PARAMETER;
    if (model->finished) return OH_NN_OPERATION_FORBIDDEN;
    size_t count = quantisation->bits.size();
    bool alike = count && quantisation->scales.size() == count && quantisation->zero_points.size() == count;
    bool eight = std::all_of(quantisation->bits.begin(), quantisation->bits.end(), [](uint32_t bits) { return bits == 8; });
    if (index >= model->graph->tensors.size() || !alike || !eight) return OH_NN_INVALID_PARAMETER;
    model->graph->tensors[index].quantisation_bits = quantisation->bits;
    return OH_NN_SUCCESS;
}

NN_QuantParam *OH_NNQuantParam_Create(void) { return new (std::nothrow) NN_QuantParam; }

OH_NN_ReturnCode OH_NNQuantParam_Destroy(NN_QuantParam **parameters) {
    if (!parameters || !*parameters) return OH_NN_INVALID_PARAMETER;
    delete *parameters;
    *parameters = nullptr;
    return OH_NN_SUCCESS;
}

template <typename Number>
static OH_NN_ReturnCode take_numbers(NN_QuantParam *parameters, std::vector<Number> NN_QuantParam::*place,
                                     const Number *numbers, size_t count) {
    if (!parameters || !numbers || count == 0) return OH_NN_INVALID_PARAMETER;
    (parameters->*place).assign(numbers, numbers + count);
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNQuantParam_SetScales(NN_QuantParam *parameters, const double *scales, size_t count) {
    return take_numbers(parameters, &NN_QuantParam::scales, scales, count);
}

OH_NN_ReturnCode OH_NNQuantParam_SetZeroPoints(NN_QuantParam *parameters, const int32_t *points, size_t count) {
    return take_numbers(parameters, &NN_QuantParam::zero_points, points, count);
}

OH_NN_ReturnCode OH_NNQuantParam_SetNumBits(NN_QuantParam *parameters, const uint32_t *bits, size_t count) {
    return take_numbers(parameters, &NN_QuantParam::bits, bits, count);
}
#endif
