// One operation while it is computed.
#ifndef OHFORGE_NNRT_STEP_HPP
#define OHFORGE_NNRT_STEP_HPP

#include "graph.hpp"
#include "parameters.hpp"

namespace reference {

constexpr size_t largest_result = size_t{1} << 30;
constexpr int64_t largest_step = 1 << 20;

// The methods give false after `why` was set.
class Step {
  public:
    Step(const Graph &graph, const Operation &operation, std::vector<Value> &values, bool shapes_only, Workers *workers,
         std::string &why)
        : graph_(graph), operation_(operation), values_(values), shapes_only_(shapes_only), workers_(workers), why_(why) {}

    bool run();

  private:
    const Graph &graph_;
    const Operation &operation_;
    std::vector<Value> &values_;
    bool shapes_only_;
    Workers *workers_;
    std::string &why_;

    const Value &in(size_t index) const { return values_[operation_.inputs[index]]; }
    Value &out() const { return values_[operation_.outputs[0]]; }
    const ModelTensor *parameter(OH_NN_TensorType role) const { return find_parameter(graph_, operation_, role); }
    size_t dimension(size_t input, size_t axis) const { return static_cast<size_t>(in(input).shape[axis]); }
    bool refuse(const char *why) {
        why_ = why;
        return false;
    }

    bool check_inputs();
    bool give_shape(const std::vector<size_t> &shape);
    float *cells() { return reinterpret_cast<float *>(out().own.data()); }
    Activation fused(OH_NN_TensorType role) const;
    bool read_axis(int64_t axis, size_t rank, size_t &result);
    bool read_numbers(size_t input, std::vector<int64_t> &numbers);

    bool window(const ModelTensor *mode, const ModelTensor *pad, size_t direction, size_t size, size_t kernel,
                size_t stride, size_t dilation, bool ceil, size_t &before, size_t &count);
    bool convolution(bool depthwise);
    bool pool(bool maximum);
    bool matrix_product();
    bool full_connection();
    bool multiply(size_t batches, size_t rows, size_t depth, size_t columns, bool turn_a, bool turn_b, size_t stride_b,
                  const float *bias, Activation activation);
    bool two_operands(BinaryKind kind, Activation activation);
    bool one_operand(ActivationKind kind);
    bool softmax();
    bool concat();
    bool reshape();
    bool transpose();
    bool channels(const float *factor, const float *offset);
    bool bias_add();
    bool scale();
    bool batch_norm();
    bool pad();
    bool reduce_mean();
};

}  // namespace reference

#endif
