#include "parameters.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace reference {

namespace {

ParameterRule activation(OH_NN_TensorType role) { return {role, OH_NN_INT8, 1, 0, 9}; }

std::vector<ParameterRule> window(OH_NN_TensorType kernel, OH_NN_TensorType stride, OH_NN_TensorType mode,
                                  OH_NN_TensorType pad, OH_NN_TensorType act, OH_NN_TensorType round,
                                  OH_NN_TensorType whole) {
    return {{kernel, OH_NN_INT64, 2, 0, 9}, {stride, OH_NN_INT64, 2, 0, 9}, {mode, OH_NN_INT8, 1, 0, 9},
            {pad, OH_NN_INT64, 4, 0, 9},    activation(act),                {round, OH_NN_INT32, 1, 0, 12},
            {whole, OH_NN_BOOL, 1, 0, 12}};
}

std::vector<OperationRule> make_rules() {
    std::vector<OperationRule> rules = {
        {OH_NN_OPS_ADD, 2, 2, {activation(OH_NN_ADD_ACTIVATIONTYPE)}, false},
        {OH_NN_OPS_SUB, 2, 2, {activation(OH_NN_SUB_ACTIVATIONTYPE)}, false},
        {OH_NN_OPS_MUL, 2, 2, {activation(OH_NN_MUL_ACTIVATION_TYPE)}, false},
        {OH_NN_OPS_DIV, 2, 2, {activation(OH_NN_DIV_ACTIVATIONTYPE)}, false},
        {OH_NN_OPS_CONV2D, 3, 3,
         {{OH_NN_CONV2D_STRIDES, OH_NN_INT64, 2, 0, 9}, {OH_NN_CONV2D_DILATION, OH_NN_INT64, 2, 0, 9},
          {OH_NN_CONV2D_PAD, OH_NN_INT64, 4, 0, 9}, {OH_NN_CONV2D_PAD_MODE, OH_NN_INT8, 1, 0, 9},
          {OH_NN_CONV2D_GROUP, OH_NN_INT64, 1, 0, 9}, activation(OH_NN_CONV2D_ACTIVATION_TYPE)}, false},
        {OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE, 3, 3,
         {{OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES, OH_NN_INT64, 2, 0, 9},
          {OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION, OH_NN_INT64, 2, 0, 9},
          {OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD, OH_NN_INT64, 4, 0, 9},
          {OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD_MODE, OH_NN_INT8, 1, 0, 9},
          activation(OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE)}, false},
        {OH_NN_OPS_AVG_POOL, 1, 1,
         window(OH_NN_AVG_POOL_KERNEL_SIZE, OH_NN_AVG_POOL_STRIDE, OH_NN_AVG_POOL_PAD_MODE, OH_NN_AVG_POOL_PAD,
                OH_NN_AVG_POOL_ACTIVATION_TYPE, OH_NN_AVG_POOL_ROUND_MODE, OH_NN_AVG_POOL_GLOBAL), false},
        {OH_NN_OPS_MAX_POOL, 1, 1,
         window(OH_NN_MAX_POOL_KERNEL_SIZE, OH_NN_MAX_POOL_STRIDE, OH_NN_MAX_POOL_PAD_MODE, OH_NN_MAX_POOL_PAD,
                OH_NN_MAX_POOL_ACTIVATION_TYPE, OH_NN_MAX_POOL_ROUND_MODE, OH_NN_MAX_POOL_GLOBAL), false},
        {OH_NN_OPS_FULL_CONNECTION, 3, 3,
         {activation(OH_NN_FULL_CONNECTION_ACTIVATIONTYPE), {OH_NN_FULL_CONNECTION_AXIS, OH_NN_INT64, 1, 0, 9},
          {OH_NN_FULL_CONNECTION_HAS_BIAS, OH_NN_BOOL, 1, 0, 12},
          {OH_NN_FULL_CONNECTION_USE_AXIS, OH_NN_BOOL, 1, 0, 12}}, false},
        {OH_NN_OPS_MATMUL, 2, 2,
         {{OH_NN_MATMUL_TRANSPOSE_A, OH_NN_BOOL, 1, 0, 9}, {OH_NN_MATMUL_TRANSPOSE_B, OH_NN_BOOL, 1, 0, 9},
          activation(OH_NN_MATMUL_ACTIVATION_TYPE)}, false},
        {OH_NN_OPS_SOFTMAX, 1, 1, {{OH_NN_SOFTMAX_AXIS, OH_NN_INT64, 1, 0, 9}}, false},
        {OH_NN_OPS_CONCAT, 2, 200, {{OH_NN_CONCAT_AXIS, OH_NN_INT64, 1, 0, 9}}, false},
        {OH_NN_OPS_SCALE, 3, 3, {{OH_NN_SCALE_AXIS, OH_NN_INT64, 1, 0, 9}, activation(OH_NN_SCALE_ACTIVATIONTYPE)}, false},
        {OH_NN_OPS_BATCH_NORM, 5, 5, {{OH_NN_BATCH_NORM_EPSILON, OH_NN_FLOAT32, 1, 0, 9}}, false},
        {OH_NN_OPS_PAD, 2, 2,
         {{OH_NN_PAD_CONSTANT_VALUE, OH_NN_FLOAT32, 1, 0, 9}, {OH_NN_PAD_PADDING_MODE, OH_NN_INT32, 1, 0, 12}}, false},
        {OH_NN_OPS_REDUCE_MEAN, 2, 2,
         {{OH_NN_REDUCE_MEAN_KEEP_DIMS, OH_NN_BOOL, 1, 0, 9}, {OH_NN_REDUCE_MEAN_REDUCE_TO_END, OH_NN_BOOL, 1, 0, 12},
          {OH_NN_REDUCE_MEAN_COEFF, OH_NN_FLOAT32, 1, 0, 12}}, false},
    };
    for (OH_NN_OperationType type : {OH_NN_OPS_RELU, OH_NN_OPS_RELU6, OH_NN_OPS_SIGMOID, OH_NN_OPS_TANH})
        rules.push_back({type, 1, 1, {}, true});
    for (OH_NN_OperationType type : {OH_NN_OPS_RESHAPE, OH_NN_OPS_TRANSPOSE, OH_NN_OPS_BIAS_ADD, OH_NN_OPS_MAXIMUM})
        rules.push_back({type, 2, 2, {}, true});
    return rules;
}

OH_NN_ReturnCode check_parameter(const OperationRule &rule, const ModelTensor &parameter) {
    for (const ParameterRule &known : rule.parameters) {
        if (known.role != parameter.role || known.level > OHFORGE_API_LEVEL) continue;
        std::optional<size_t> cells = parameter.description.cells();
        bool fits = parameter.description.type == known.type && cells && *cells == known.count && parameter.has_data;
        return fits ? OH_NN_SUCCESS : OH_NN_INVALID_PARAMETER;
    }
    return OH_NN_INVALID_PARAMETER;
}

// 3.2 wants the activation, and the axis as an option; 5.0 takes both as options.
bool needed_parameters_given(const Graph &graph, const Operation &operation) {
    if (operation.type != OH_NN_OPS_FULL_CONNECTION || new_rules) return true;
    return find_parameter(graph, operation, OH_NN_FULL_CONNECTION_ACTIVATIONTYPE) != nullptr;
}

bool valid_activation(const ModelTensor &parameter) {
    static const std::set<OH_NN_TensorType> roles = {
        OH_NN_ADD_ACTIVATIONTYPE, OH_NN_SUB_ACTIVATIONTYPE, OH_NN_MUL_ACTIVATION_TYPE, OH_NN_DIV_ACTIVATIONTYPE,
        OH_NN_CONV2D_ACTIVATION_TYPE, OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE, OH_NN_AVG_POOL_ACTIVATION_TYPE,
        OH_NN_MAX_POOL_ACTIVATION_TYPE, OH_NN_FULL_CONNECTION_ACTIVATIONTYPE, OH_NN_MATMUL_ACTIVATION_TYPE,
        OH_NN_SCALE_ACTIVATIONTYPE};
    return roles.count(parameter.role) == 0 || (parameter.data[0] <= OH_NN_FUSED_RELU6);
}

}  // namespace

const OperationRule *find_rule(OH_NN_OperationType type) {
    static const std::vector<OperationRule> rules = make_rules();
    for (const OperationRule &rule : rules)
        if (rule.type == type) return &rule;
    return nullptr;
}

bool computes(OH_NN_OperationType type) { return find_rule(type) != nullptr; }

OH_NN_ReturnCode check_operation(const Graph &graph, const Operation &operation) {
    const OperationRule *rule = find_rule(operation.type);
    if (!rule) return OH_NN_SUCCESS;  // Known by its number only: left to the device, which will refuse it.
    bool counts = operation.inputs.size() >= rule->inputs && operation.inputs.size() <= rule->most_inputs &&
                  operation.outputs.size() == 1;
    if (!counts || !needed_parameters_given(graph, operation)) return OH_NN_INVALID_PARAMETER;
    std::set<OH_NN_TensorType> seen;
    for (uint32_t index : operation.parameters) {
        const ModelTensor &parameter = graph.tensors[index];
        if (rule->extra_parameters && OHFORGE_API_LEVEL < 12) continue;
        OH_NN_ReturnCode code = check_parameter(*rule, parameter);
        if (code != OH_NN_SUCCESS) return code;
        if (!seen.insert(parameter.role).second || !valid_activation(parameter)) return OH_NN_INVALID_PARAMETER;
    }
    return OH_NN_SUCCESS;
}

const ModelTensor *find_parameter(const Graph &graph, const Operation &operation, OH_NN_TensorType role) {
    for (uint32_t index : operation.parameters)
        if (graph.tensors[index].role == role) return &graph.tensors[index];
    return nullptr;
}

std::vector<int64_t> integers(const ModelTensor *parameter, std::vector<int64_t> otherwise) {
    if (!parameter) return otherwise;
    size_t item = item_bytes(parameter->description.type);
    std::vector<int64_t> numbers;
    for (size_t at = 0; at + item <= parameter->data.size(); at += item) {
        int64_t wide = 0;
        int32_t word = 0;
        int8_t byte = static_cast<int8_t>(parameter->data[at]);
        if (item == 8) std::memcpy(&wide, &parameter->data[at], item);
        if (item == 4) std::memcpy(&word, &parameter->data[at], item);
        numbers.push_back(item == 8 ? wide : item == 4 ? word : byte);
    }
    return numbers;
}

float number(const ModelTensor *parameter, float otherwise) {
    float value = otherwise;
    if (parameter) std::memcpy(&value, parameter->data.data(), sizeof value);
    return value;
}

bool truth(const ModelTensor *parameter, bool otherwise) { return parameter ? parameter->data[0] != 0 : otherwise; }

}  // namespace reference
