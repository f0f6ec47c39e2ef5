// Operations that work cell by cell, along an axis, or that move cells.
#include <algorithm>
#include <cstring>

#include "step.hpp"

namespace reference {

static std::vector<int64_t> wide(const Shape &shape) { return {shape.begin(), shape.end()}; }

bool Step::two_operands(BinaryKind kind, Activation activation) {
    Broadcast plan;
    std::vector<int64_t> a = wide(in(0).shape), b = wide(in(1).shape);
    if (!broadcast_plan(a.data(), a.size(), b.data(), b.size(), &plan)) return refuse("the shapes do not fit together");
    if (!give_shape({plan.size, plan.size + plan.rank}) || shapes_only_) return why_.empty();
    binary_float(kind, &plan, in(0).floats(), in(1).floats(), cells());
    activate(cells(), cells(), out().count(), activation);
    return true;
}

static std::vector<size_t> sizes(const Shape &shape) { return {shape.begin(), shape.end()}; }

bool Step::one_operand(ActivationKind kind) {
    if (!give_shape(sizes(in(0).shape)) || shapes_only_) return why_.empty();
    activate(in(0).floats(), cells(), in(0).count(), {kind, 0.0f, false});
    return true;
}

static size_t product(const Shape &shape, size_t from, size_t to) {
    size_t count = 1;
    for (size_t i = from; i < to; i++) count *= static_cast<size_t>(shape[i]);
    return count;
}

bool Step::softmax() {
    const Shape &shape = in(0).shape;
    const ModelTensor *given = parameter(OH_NN_SOFTMAX_AXIS);
    size_t axis;
    if (!given) return refuse("the axis is missing");
    if (!read_axis(integers(given, {})[0], shape.size(), axis) || !give_shape(sizes(shape)) || shapes_only_)
        return why_.empty();
    softmax_run(in(0).floats(), product(shape, 0, axis), dimension(0, axis), product(shape, axis + 1, shape.size()), false,
                cells());
    return true;
}

bool Step::concat() {
    const Shape &first = in(0).shape;
    const ModelTensor *given = parameter(OH_NN_CONCAT_AXIS);
    std::vector<size_t> shape = sizes(first);
    size_t axis;
    if (!given) return refuse("the axis is missing");
    if (!read_axis(integers(given, {})[0], first.size(), axis)) return false;
    for (size_t i = 1; i < operation_.inputs.size(); i++) {
        Shape part = in(i).shape;
        if (part.size() != first.size()) return refuse("the parts differ in rank");
        shape[axis] += dimension(i, axis);
        part[axis] = first[axis];
        if (part != first) return refuse("the parts differ beside the axis");
    }
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    size_t inner = product(first, axis + 1, first.size()), whole = shape[axis] * inner, place = 0;
    for (size_t i = 0; i < operation_.inputs.size(); i++) {
        size_t part = dimension(i, axis) * inner;
        for (size_t o = 0; o < product(first, 0, axis); o++)
            std::memcpy(cells() + o * whole + place, in(i).floats() + o * part, part * sizeof(float));
        place += part;
    }
    return true;
}

bool Step::reshape() {
    std::vector<int64_t> numbers;
    std::vector<size_t> shape;
    size_t known = 1, cells_in = in(0).count();
    if (!read_numbers(1, numbers)) return false;
    if (std::count(numbers.begin(), numbers.end(), -1) > 1) return refuse("the shape leaves two dimensions open");
    for (size_t i = 0; i < numbers.size(); i++) {
        if (numbers[i] == 0 && i < in(0).shape.size()) numbers[i] = in(0).shape[i];
        if (numbers[i] == -1) continue;
        if (numbers[i] < 1 || static_cast<uint64_t>(numbers[i]) > cells_in / known)
            return refuse("the shape does not have as many cells as the input");
        known *= static_cast<size_t>(numbers[i]);
    }
    for (int64_t number : numbers) shape.push_back(number == -1 ? cells_in / known : static_cast<size_t>(number));
    size_t count = 1;
    for (size_t size : shape) count *= size;
    if (count != cells_in) return refuse("the shape does not have as many cells as the input");
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    std::memcpy(cells(), in(0).cells, cells_in * sizeof(float));
    return true;
}

bool Step::transpose() {
    std::vector<int64_t> numbers;
    std::vector<size_t> size = sizes(in(0).shape), order, shape;
    if (!read_numbers(1, numbers)) return false;
    for (int64_t number : numbers) {
        size_t axis;
        if (!read_axis(number, size.size(), axis)) return false;
        if (std::count(order.begin(), order.end(), axis)) return refuse("the order names a dimension twice");
        order.push_back(axis);
        shape.push_back(size[axis]);
    }
    if (order.size() != size.size()) return refuse("the order does not name every dimension");
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    transpose_run(in(0).cells, size.data(), order.data(), size.size(), sizeof(float), cells());
    return true;
}

bool Step::channels(const float *factor, const float *offset) {
    size_t count = dimension(0, in(0).shape.size() - 1);
    scale_run(in(0).floats(), factor, offset, in(0).count() / count, count, 1, cells());
    return true;
}

bool Step::bias_add() {
    const Shape &shape = in(0).shape;
    if (shape.empty() || in(1).count() != dimension(0, shape.size() - 1))
        return refuse("the bias does not have one value for each channel");
    if (!give_shape(sizes(shape)) || shapes_only_) return why_.empty();
    return channels(nullptr, in(1).floats());
}

bool Step::scale() {
    const Shape &shape = in(0).shape;
    const ModelTensor *given = parameter(OH_NN_SCALE_AXIS);
    size_t axis;
    if (!given) return refuse("the axis is missing");
    if (!read_axis(integers(given, {})[0], shape.size(), axis)) return false;
    if (in(1).count() != dimension(0, axis) || in(2).count() != in(1).count()) return refuse("factor and offset do not fit");
    if (!give_shape(sizes(shape)) || shapes_only_) return why_.empty();
    scale_run(in(0).floats(), in(1).floats(), in(2).floats(), product(shape, 0, axis), dimension(0, axis),
              product(shape, axis + 1, shape.size()), cells());
    activate(cells(), cells(), out().count(), fused(OH_NN_SCALE_ACTIVATIONTYPE));
    return true;
}

// Inputs: the cells, scale, offset, mean, variance.
bool Step::batch_norm() {
    size_t count = in(0).shape.empty() ? 0 : dimension(0, in(0).shape.size() - 1);
    for (size_t i = 1; i < 5; i++)
        if (in(i).count() != count) return refuse("there is not one value for each channel");
    if (!give_shape(sizes(in(0).shape)) || shapes_only_) return why_.empty();
    std::vector<float> factor(count), offset(count);
    float epsilon = number(parameter(OH_NN_BATCH_NORM_EPSILON), 1e-7f);
    for (size_t c = 0; c < count; c++) {
        float variance = in(4).floats()[c] + epsilon;
        unary_float(UNARY_RSQRT, &variance, &factor[c], 1);
        factor[c] *= in(1).floats()[c];
        offset[c] = in(2).floats()[c] - in(3).floats()[c] * factor[c];
    }
    return channels(factor.data(), offset.data());
}

bool Step::pad() {
    std::vector<int64_t> widths;
    std::vector<size_t> size = sizes(in(0).shape), before, shape;
    if (!read_numbers(1, widths)) return false;
    if (widths.size() != 2 * size.size()) return refuse("there are not two widths for each dimension");
    if (integers(parameter(OH_NN_PAD_PADDING_MODE), {0})[0] != 0) return refuse("only a constant can be padded with");
    for (size_t i = 0; i < size.size(); i++) {
        if (widths[2 * i] < 0 || widths[2 * i + 1] < 0 || std::max(widths[2 * i], widths[2 * i + 1]) > largest_step)
            return refuse("a width is out of range");
        before.push_back(static_cast<size_t>(widths[2 * i]));
        shape.push_back(size[i] + before.back() + static_cast<size_t>(widths[2 * i + 1]));
    }
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    float value = number(parameter(OH_NN_PAD_CONSTANT_VALUE), 0.0f);
    pad_run(in(0).cells, size.data(), before.data(), shape.data(), size.size(), &value, sizeof value, cells());
    return true;
}

bool Step::reduce_mean() {
    std::vector<int64_t> axes;
    std::vector<size_t> size = sizes(in(0).shape), shape;
    bool marked[MAX_RANK] = {false};
    bool keep = truth(parameter(OH_NN_REDUCE_MEAN_KEEP_DIMS), false);
    if (!read_numbers(1, axes)) return false;
    for (int64_t number : axes) {
        size_t axis;
        if (!read_axis(number, size.size(), axis)) return false;
        marked[axis] = true;
        for (size_t later = axis; truth(parameter(OH_NN_REDUCE_MEAN_REDUCE_TO_END), false) && later < size.size(); later++)
            marked[later] = true;
    }
    for (size_t i = 0; i < size.size(); i++)
        if (!marked[i] || keep) shape.push_back(marked[i] ? 1 : size[i]);
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    float factor = number(parameter(OH_NN_REDUCE_MEAN_COEFF), 0.0f);
    reduce_run(REDUCE_MEAN, in(0).floats(), size.data(), size.size(), marked, factor == 0.0f ? 1.0f : factor, cells());
    return true;
}

}  // namespace reference
