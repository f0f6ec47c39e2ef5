// Convolution, pooling and matrix products.
#include <algorithm>

#include "step.hpp"

namespace reference {

// padMode 0 is SAME and everything else VALID: not the numbering of .ms files.
bool Step::window(const ModelTensor *mode, const ModelTensor *pad, size_t direction, size_t size, size_t kernel,
                  size_t stride, size_t dilation, bool ceil, size_t &before, size_t &count) {
    size_t after = 0;
    before = 0;
    if (uint64_t{kernel - 1} * dilation > 1 << 28) return refuse("the kernel is too large");
    if (mode && mode->data[0] == 0) {
        same_padding(size, kernel, stride, dilation, &before, &after);
    } else if (pad) {
        std::vector<int64_t> pads = integers(pad, {});
        before = static_cast<size_t>(pads[2 * direction]), after = static_cast<size_t>(pads[2 * direction + 1]);
        if (before > static_cast<size_t>(largest_step) || after > static_cast<size_t>(largest_step))
            return refuse("the padding is out of range");
    }
    size_t covered = (kernel - 1) * dilation + 1, whole = size + before + after;
    if (whole < covered) return refuse("the kernel is larger than the padded input");
    count = (whole - covered + (ceil ? stride - 1 : 0)) / stride + 1;
    return true;
}

static bool in_range(const std::vector<int64_t> &numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n >= 1 && n <= largest_step; });
}

bool Step::convolution(bool depthwise) {
    auto role = [depthwise](OH_NN_TensorType normal, OH_NN_TensorType deep) { return depthwise ? deep : normal; };
    if (in(0).shape.size() != 4 || in(1).shape.size() != 4) return refuse("input and weights must have four dimensions");
    std::vector<int64_t> strides =
        integers(parameter(role(OH_NN_CONV2D_STRIDES, OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES)), {1, 1});
    std::vector<int64_t> dilation =
        integers(parameter(role(OH_NN_CONV2D_DILATION, OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION)), {1, 1});
    int64_t group = depthwise ? in(0).shape[3] : integers(parameter(OH_NN_CONV2D_GROUP), {1})[0];
    if (!in_range(strides) || !in_range(dilation) || !in_range({group})) return refuse("a parameter is out of range");
    ConvShape s = {};
    s.batch = dimension(0, 0), s.in_height = dimension(0, 1), s.in_width = dimension(0, 2), s.in_channels = dimension(0, 3);
    s.out_channels = dimension(1, 0), s.kernel_height = dimension(1, 1), s.kernel_width = dimension(1, 2);
    s.stride_height = static_cast<size_t>(strides[0]), s.stride_width = static_cast<size_t>(strides[1]);
    s.dilation_height = static_cast<size_t>(dilation[0]), s.dilation_width = static_cast<size_t>(dilation[1]);
    s.group = static_cast<size_t>(group);
    if (dimension(1, 3) * s.group != s.in_channels || s.out_channels % s.group || in(2).count() != s.out_channels)
        return refuse("weights, bias, groups and channels do not fit together");
    const ModelTensor *mode = parameter(role(OH_NN_CONV2D_PAD_MODE, OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD_MODE));
    const ModelTensor *pads = parameter(role(OH_NN_CONV2D_PAD, OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD));
    if (!window(mode, pads, 0, s.in_height, s.kernel_height, s.stride_height, s.dilation_height, false, s.pad_top, s.out_height) ||
        !window(mode, pads, 1, s.in_width, s.kernel_width, s.stride_width, s.dilation_width, false, s.pad_left, s.out_width) ||
        !give_shape({s.batch, s.out_height, s.out_width, s.out_channels}))
        return false;
    if (shapes_only_) return true;
    std::vector<float> packed(conv_packed_floats(&s));
    conv_pack(&s, in(1).floats(), packed.data());
    Activation activation = fused(role(OH_NN_CONV2D_ACTIVATION_TYPE, OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE));
    return conv_run(&s, in(0).floats(), packed.data(), in(2).floats(), activation, cells(), workers_) ||
           refuse("there is not enough memory to work in");
}

bool Step::pool(bool maximum) {
    auto role = [maximum](OH_NN_TensorType mean, OH_NN_TensorType max) { return maximum ? max : mean; };
    if (in(0).shape.size() != 4) return refuse("the input must have four dimensions");
    PoolShape s = {};
    s.batch = dimension(0, 0), s.in_height = dimension(0, 1), s.in_width = dimension(0, 2), s.channels = dimension(0, 3);
    s.kernel_height = s.in_height, s.kernel_width = s.in_width;
    s.out_height = s.out_width = s.stride_height = s.stride_width = 1;
    if (!truth(parameter(role(OH_NN_AVG_POOL_GLOBAL, OH_NN_MAX_POOL_GLOBAL)), false)) {
        std::vector<int64_t> kernel = integers(parameter(role(OH_NN_AVG_POOL_KERNEL_SIZE, OH_NN_MAX_POOL_KERNEL_SIZE)), {});
        std::vector<int64_t> stride = integers(parameter(role(OH_NN_AVG_POOL_STRIDE, OH_NN_MAX_POOL_STRIDE)), {});
        if (kernel.size() != 2 || stride.size() != 2 || !in_range(kernel) || !in_range(stride))
            return refuse("kernel or stride is missing or out of range");
        s.kernel_height = static_cast<size_t>(kernel[0]), s.kernel_width = static_cast<size_t>(kernel[1]);
        s.stride_height = static_cast<size_t>(stride[0]), s.stride_width = static_cast<size_t>(stride[1]);
        bool ceil = integers(parameter(role(OH_NN_AVG_POOL_ROUND_MODE, OH_NN_MAX_POOL_ROUND_MODE)), {0})[0] == 1;
        const ModelTensor *mode = parameter(role(OH_NN_AVG_POOL_PAD_MODE, OH_NN_MAX_POOL_PAD_MODE));
        const ModelTensor *pads = parameter(role(OH_NN_AVG_POOL_PAD, OH_NN_MAX_POOL_PAD));
        if (!window(mode, pads, 0, s.in_height, s.kernel_height, s.stride_height, 1, ceil, s.pad_top, s.out_height) ||
            !window(mode, pads, 1, s.in_width, s.kernel_width, s.stride_width, 1, ceil, s.pad_left, s.out_width))
            return false;
    }
    if (!give_shape({s.batch, s.out_height, s.out_width, s.channels}) || shapes_only_) return why_.empty();
    pool_run(&s, maximum, in(0).floats(), cells());
    activate(cells(), cells(), out().count(), fused(role(OH_NN_AVG_POOL_ACTIVATION_TYPE, OH_NN_MAX_POOL_ACTIVATION_TYPE)));
    return true;
}

bool Step::multiply(size_t batches, size_t rows, size_t depth, size_t columns, bool turn_a, bool turn_b, size_t stride_b,
                    const float *bias, Activation activation) {
    std::vector<float> packed(matrix_packed_floats(depth, columns)), turned(turn_a ? rows * depth : 0);
    for (size_t batch = 0; batch < batches; batch++) {
        const float *a = in(0).floats() + batch * rows * depth, *b = in(1).floats() + batch * stride_b;
        if (turn_a) {
            size_t size[2] = {depth, rows}, order[2] = {1, 0};
            transpose_run(a, size, order, 2, sizeof(float), turned.data());
            a = turned.data();
        }
        matrix_pack(b, depth, columns, turn_b ? 1 : columns, turn_b ? depth : 1, packed.data());
        if (!matrix_run(a, rows, depth, depth, packed.data(), columns, bias, activation, cells() + batch * rows * columns,
                        workers_))
            return refuse("there is not enough memory to work in");
    }
    return true;
}

bool Step::matrix_product() {
    bool turn_a = truth(parameter(OH_NN_MATMUL_TRANSPOSE_A), false), turn_b = truth(parameter(OH_NN_MATMUL_TRANSPOSE_B), false);
    size_t rank_a = in(0).shape.size(), rank_b = in(1).shape.size();
    if (rank_a < 2 || (rank_b != 2 && rank_b != rank_a)) return refuse("the factors have no fitting number of dimensions");
    size_t rows = dimension(0, rank_a - (turn_a ? 1 : 2)), depth = dimension(0, rank_a - (turn_a ? 2 : 1));
    size_t columns = dimension(1, rank_b - (turn_b ? 2 : 1)), batches = 1;
    if (dimension(1, rank_b - (turn_b ? 1 : 2)) != depth) return refuse("the inner dimensions of the factors differ");
    std::vector<size_t> shape;
    for (size_t axis = 0; axis + 2 < rank_a; axis++) {
        if (rank_b == rank_a && in(0).shape[axis] != in(1).shape[axis]) return refuse("the leading dimensions differ");
        shape.push_back(dimension(0, axis));
        batches *= shape.back();
    }
    shape.push_back(rows);
    shape.push_back(columns);
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    return multiply(batches, rows, depth, columns, turn_a, turn_b, rank_b == rank_a && rank_a > 2 ? depth * columns : 0,
                    nullptr, fused(OH_NN_MATMUL_ACTIVATION_TYPE));
}

// The axis counts when it is given in 3.2, and only together with useAxis from API level 12 on.
bool Step::full_connection() {
    if (in(1).shape.size() != 2) return refuse("the weights must have two dimensions");
    const ModelTensor *given = parameter(OH_NN_FULL_CONNECTION_AXIS);
    bool use = OHFORGE_API_LEVEL >= 12 ? truth(parameter(OH_NN_FULL_CONNECTION_USE_AXIS), false) : given != nullptr;
    size_t columns = dimension(1, 0), depth = dimension(1, 1), axis = 1;
    if (use && !read_axis(integers(given, {1})[0], in(0).shape.size(), axis)) return false;
    if (in(0).count() % depth || in(2).count() != columns) return refuse("input, weights and bias do not fit together");
    size_t rows = in(0).count() / depth, product = 1;
    std::vector<size_t> shape;
    for (size_t i = 0; use && i < axis; i++) shape.push_back(dimension(0, i)), product *= shape.back();
    if (use && product != rows) return refuse("the dimensions after the axis do not fit the weights");
    if (!use) shape.push_back(rows);
    shape.push_back(columns);
    if (!give_shape(shape) || shapes_only_) return why_.empty();
    return multiply(1, rows, depth, columns, false, true, 0, in(2).floats(), fused(OH_NN_FULL_CONNECTION_ACTIVATIONTYPE));
}

}  // namespace reference
