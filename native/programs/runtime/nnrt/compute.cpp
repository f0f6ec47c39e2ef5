// Computing a graph, operation after operation in the order in which they were added.
#include <new>

#include "step.hpp"

namespace reference {

bool Step::check_inputs() {
    for (size_t i = 0; i < operation_.inputs.size(); i++) {
        const Value &value = in(i);
        if (value.type == OH_NN_UNKNOWN) return refuse("an input has not been computed yet");
        bool list = i == 1 && (operation_.type == OH_NN_OPS_RESHAPE || operation_.type == OH_NN_OPS_TRANSPOSE ||
                               operation_.type == OH_NN_OPS_PAD || operation_.type == OH_NN_OPS_REDUCE_MEAN);
        if (!list && value.type != OH_NN_FLOAT32) return refuse("the reference runtime computes in float32 only");
        if (value.shape.size() > MAX_RANK) return refuse("an input has too many dimensions");
    }
    return true;
}

bool Step::give_shape(const std::vector<size_t> &shape) {
    uint64_t count = 1;
    Value &value = out();
    if (shape.size() > MAX_RANK) return refuse("the result has too many dimensions");
    value.shape.clear();
    for (size_t size : shape) {
        count *= size;
        if (size == 0 || count * sizeof(float) > largest_result) return refuse("the result would be empty or too large");
        value.shape.push_back(static_cast<int32_t>(size));
    }
    value.type = OH_NN_FLOAT32;
    if (!shapes_only_) value.own.assign(static_cast<size_t>(count) * sizeof(float), 0);
    value.cells = value.own.data();
    return true;
}

Activation Step::fused(OH_NN_TensorType role) const {
    static const ActivationKind kinds[] = {ACTIVATE_NONE, ACTIVATE_RELU, ACTIVATE_RELU6};
    const ModelTensor *given = parameter(role);
    return {kinds[given ? given->data[0] : 0], 0.0f, false};
}

bool Step::read_axis(int64_t axis, size_t rank, size_t &result) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return refuse("the axis does not exist");
    result = static_cast<size_t>(axis);
    return true;
}

bool Step::read_numbers(size_t input, std::vector<int64_t> &numbers) {
    const ModelTensor &tensor = graph_.tensors[operation_.inputs[input]];
    bool whole = tensor.description.type == OH_NN_INT32 || tensor.description.type == OH_NN_INT64;
    if (!tensor.has_data || !whole) return refuse("a list of numbers must be a constant of int32 or int64");
    numbers = integers(&tensor, {});
    return numbers.size() <= 2 * MAX_RANK || refuse("a list of numbers is too long");
}

bool Step::run() {
    if (!check_inputs()) return false;
    switch (operation_.type) {
        case OH_NN_OPS_ADD:
            return two_operands(BINARY_ADD, fused(OH_NN_ADD_ACTIVATIONTYPE));
        case OH_NN_OPS_SUB:
            return two_operands(BINARY_SUB, fused(OH_NN_SUB_ACTIVATIONTYPE));
        case OH_NN_OPS_MUL:
            return two_operands(BINARY_MUL, fused(OH_NN_MUL_ACTIVATION_TYPE));
        case OH_NN_OPS_DIV:
            return two_operands(BINARY_DIV, fused(OH_NN_DIV_ACTIVATIONTYPE));
        case OH_NN_OPS_MAXIMUM:
            return two_operands(BINARY_MAX, {ACTIVATE_NONE, 0.0f, false});
        case OH_NN_OPS_CONV2D:
            return convolution(false);
        case OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE:
            return convolution(true);
        case OH_NN_OPS_AVG_POOL:
            return pool(false);
        case OH_NN_OPS_MAX_POOL:
            return pool(true);
        case OH_NN_OPS_MATMUL:
            return matrix_product();
        case OH_NN_OPS_FULL_CONNECTION:
            return full_connection();
        case OH_NN_OPS_RELU:
            return one_operand(ACTIVATE_RELU);
        case OH_NN_OPS_RELU6:
            return one_operand(ACTIVATE_RELU6);
        case OH_NN_OPS_SIGMOID:
            return one_operand(ACTIVATE_SIGMOID);
        case OH_NN_OPS_TANH:
            return one_operand(ACTIVATE_TANH);
        case OH_NN_OPS_SOFTMAX:
            return softmax();
        case OH_NN_OPS_CONCAT:
            return concat();
        case OH_NN_OPS_RESHAPE:
            return reshape();
        case OH_NN_OPS_TRANSPOSE:
            return transpose();
        case OH_NN_OPS_BIAS_ADD:
            return bias_add();
        case OH_NN_OPS_SCALE:
            return scale();
        case OH_NN_OPS_BATCH_NORM:
            return batch_norm();
        case OH_NN_OPS_PAD:
            return pad();
        case OH_NN_OPS_REDUCE_MEAN:
            return reduce_mean();
    }
    return refuse("the reference runtime does not compute this operation");
}

bool compute(const Graph &graph, std::vector<Value> &values, bool shapes_only, Workers *workers, std::string &why) {
    for (size_t i = 0; i < graph.operations.size(); i++) {
        why.clear();
        try {
            if (Step(graph, graph.operations[i], values, shapes_only, workers, why).run()) continue;
        } catch (const std::bad_alloc &) {
            why = "there is not enough memory";
        }
        why = "operation " + std::to_string(i) + " (type " + std::to_string(graph.operations[i].type) + "): " + why;
        return false;
    }
    for (uint32_t index : graph.outputs)
        if (values[index].type == OH_NN_UNKNOWN) {
            why = "nothing computes tensor " + std::to_string(index);
            return false;
        }
    return true;
}

}  // namespace reference
