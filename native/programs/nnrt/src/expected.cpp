// What a network should give, in double precision and by the definition of each operation: no code is shared with any
// runtime, so that a runtime's fault cannot hide itself.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "network.hpp"

namespace {

using Numbers = std::vector<double>;

struct Expected {
    const Network &network;
    std::vector<Numbers> values;

    const NetTensor &tensor(const NetOperation &o, size_t input) const { return network.tensors[o.inputs[input]]; }
    const Numbers &in(const NetOperation &o, size_t input) const { return values[o.inputs[input]]; }
    Numbers &out(const NetOperation &o) { return values[o.outputs[0]]; }

    std::vector<int64_t> integers(const NetOperation &o, OH_NN_TensorType role) const {
        const NetTensor *parameter = network.parameter(o, role);
        std::vector<int64_t> numbers(parameter->count());
        std::memcpy(numbers.data(), parameter->data.data(), numbers.size() * sizeof(int64_t));
        return numbers;
    }
    int byte(const NetOperation &o, OH_NN_TensorType role) const {
        const NetTensor *parameter = network.parameter(o, role);
        return parameter ? parameter->data[0] : 0;
    }
    void fuse(const NetOperation &o, OH_NN_TensorType role) {
        int kind = byte(o, role);
        for (double &value : out(o)) {
            if (kind) value = std::max(value, 0.0);
            if (kind == OH_NN_FUSED_RELU6) value = std::min(value, 6.0);
        }
    }

    void binary(const NetOperation &o) {
        const Numbers &a = in(o, 0), &b = in(o, 1);
        for (size_t i = 0; i < a.size(); i++) {
            double x = a[i], y = b[i % b.size()];
            double results[] = {x + y, x - y, x * y, x / y};
            out(o)[i] = results[o.type == OH_NN_OPS_ADD ? 0 : o.type == OH_NN_OPS_SUB ? 1 : o.type == OH_NN_OPS_MUL ? 2 : 3];
        }
    }

    // Cells of padding before the first; with SAME half of what is needed for ceil(size / stride) results.
    static int64_t before(bool same, int64_t size, int64_t kernel, int64_t stride) {
        if (!same) return 0;
        return std::max<int64_t>(((size + stride - 1) / stride - 1) * stride + kernel - size, 0) / 2;
    }

    // Calls `see(result cell, input cell, tap)` for every input cell that every result cell sees.
    template <typename See>
    void windows(const NetOperation &o, int64_t kernel_h, int64_t kernel_w, const std::vector<int64_t> &stride, bool same, See see) {
        const std::vector<int32_t> &from = tensor(o, 0).shape, &to = network.tensors[o.outputs[0]].shape;
        int64_t top = before(same, from[1], kernel_h, stride[0]), left = before(same, from[2], kernel_w, stride[1]);
        for (int64_t n = 0; n < to[0]; n++)
            for (int64_t y = 0; y < to[1]; y++)
                for (int64_t x = 0; x < to[2]; x++)
                    for (int64_t tap = 0; tap < kernel_h * kernel_w; tap++) {
                        int64_t row = y * stride[0] - top + tap / kernel_w, column = x * stride[1] - left + tap % kernel_w;
                        if (row < 0 || row >= from[1] || column < 0 || column >= from[2]) continue;
                        see(static_cast<size_t>((n * to[1] + y) * to[2] + x),
                            static_cast<size_t>((n * from[1] + row) * from[2] + column), static_cast<size_t>(tap));
                    }
    }

    void convolution(const NetOperation &o) {
        const std::vector<int32_t> &w = tensor(o, 1).shape;
        size_t outs = static_cast<size_t>(w[0]), taps = static_cast<size_t>(w[1] * w[2]), ins = static_cast<size_t>(w[3]);
        for (size_t i = 0; i < out(o).size(); i++) out(o)[i] = in(o, 2)[i % outs];
        windows(o, w[1], w[2], integers(o, OH_NN_CONV2D_STRIDES), byte(o, OH_NN_CONV2D_PAD_MODE) == 0,
                [&](size_t result, size_t cell, size_t tap) {
                    for (size_t c = 0; c < outs; c++)
                        for (size_t k = 0; k < ins; k++)
                            out(o)[result * outs + c] += in(o, 0)[cell * ins + k] * in(o, 1)[(c * taps + tap) * ins + k];
                });
    }

    void pool(const NetOperation &o, bool maximum) {
        std::vector<int64_t> kernel = integers(o, maximum ? OH_NN_MAX_POOL_KERNEL_SIZE : OH_NN_AVG_POOL_KERNEL_SIZE);
        std::vector<int64_t> stride = integers(o, maximum ? OH_NN_MAX_POOL_STRIDE : OH_NN_AVG_POOL_STRIDE);
        bool same = byte(o, maximum ? OH_NN_MAX_POOL_PAD_MODE : OH_NN_AVG_POOL_PAD_MODE) == 0;
        size_t channels = static_cast<size_t>(tensor(o, 0).shape[3]);
        Numbers seen(out(o).size() / channels, 0);
        std::fill(out(o).begin(), out(o).end(), maximum ? -INFINITY : 0.0);
        windows(o, kernel[0], kernel[1], stride, same, [&](size_t result, size_t cell, size_t) {
            seen[result] += 1;
            for (size_t c = 0; c < channels; c++) {
                double value = in(o, 0)[cell * channels + c], &place = out(o)[result * channels + c];
                place = maximum ? std::max(place, value) : place + value;
            }
        });
        for (size_t i = 0; !maximum && i < out(o).size(); i++) out(o)[i] /= seen[i / channels];
    }

    void full_connection(const NetOperation &o) {
        size_t outs = static_cast<size_t>(tensor(o, 1).shape[0]), ins = static_cast<size_t>(tensor(o, 1).shape[1]);
        for (size_t i = 0; i < out(o).size(); i++) {
            out(o)[i] = in(o, 2)[i % outs];
            for (size_t k = 0; k < ins; k++) out(o)[i] += in(o, 0)[i / outs * ins + k] * in(o, 1)[i % outs * ins + k];
        }
    }

    void softmax(const NetOperation &o) {
        const std::vector<int32_t> &shape = tensor(o, 0).shape;
        int64_t axis = integers(o, OH_NN_SOFTMAX_AXIS)[0];
        if (axis < 0) axis += static_cast<int64_t>(shape.size());
        size_t inner = 1, middle = static_cast<size_t>(shape[static_cast<size_t>(axis)]);
        for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); i++) inner *= static_cast<size_t>(shape[i]);
        for (size_t i = 0; i < out(o).size(); i++) {
            size_t first = i / (middle * inner) * middle * inner + i % inner;
            double sum = 0;
            for (size_t m = 0; m < middle; m++) sum += std::exp(in(o, 0)[first + m * inner] - in(o, 0)[i]);
            out(o)[i] = 1 / sum;
        }
    }

    void each(const NetOperation &o) {
        for (size_t i = 0; i < out(o).size(); i++) {
            double x = in(o, 0)[i];
            out(o)[i] = o.type == OH_NN_OPS_SIGMOID ? 1 / (1 + std::exp(-x))
                        : o.type == OH_NN_OPS_TANH  ? std::tanh(x)
                        : o.type == OH_NN_OPS_RELU6 ? std::min(std::max(x, 0.0), 6.0)
                                                    : std::max(x, 0.0);
        }
    }

    void compute(const NetOperation &o) {
        out(o).assign(network.tensors[o.outputs[0]].count(), 0.0);
        switch (o.type) {
            case OH_NN_OPS_ADD:
                return binary(o), fuse(o, OH_NN_ADD_ACTIVATIONTYPE);
            case OH_NN_OPS_SUB:
                return binary(o), fuse(o, OH_NN_SUB_ACTIVATIONTYPE);
            case OH_NN_OPS_MUL:
                return binary(o), fuse(o, OH_NN_MUL_ACTIVATION_TYPE);
            case OH_NN_OPS_DIV:
                return binary(o), fuse(o, OH_NN_DIV_ACTIVATIONTYPE);
            case OH_NN_OPS_CONV2D:
                return convolution(o), fuse(o, OH_NN_CONV2D_ACTIVATION_TYPE);
            case OH_NN_OPS_MAX_POOL:
                return pool(o, true), fuse(o, OH_NN_MAX_POOL_ACTIVATION_TYPE);
            case OH_NN_OPS_AVG_POOL:
                return pool(o, false), fuse(o, OH_NN_AVG_POOL_ACTIVATION_TYPE);
            case OH_NN_OPS_FULL_CONNECTION:
                return full_connection(o), fuse(o, OH_NN_FULL_CONNECTION_ACTIVATIONTYPE);
            case OH_NN_OPS_SOFTMAX:
                return softmax(o);
            default:
                return each(o);
        }
    }
};

}  // namespace

std::vector<std::vector<double>> compute_expected(const Network &network) {
    Expected expected = {network, std::vector<Numbers>(network.tensors.size())};
    for (size_t i = 0; i < network.tensors.size(); i++) {
        const NetTensor &tensor = network.tensors[i];
        if (tensor.type == OH_NN_FLOAT32 && !tensor.data.empty())
            expected.values[i].assign(tensor.floats(), tensor.floats() + tensor.count());
    }
    for (const NetOperation &operation : network.operations) expected.compute(operation);
    std::vector<Numbers> results;
    for (uint32_t index : network.outputs) results.push_back(expected.values[index]);
    return results;
}
