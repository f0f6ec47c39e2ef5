// A network as data: what both styles of the NNRt API build, and what the check computes.
#ifndef OHFORGE_NNRT_NETWORK_HPP
#define OHFORGE_NNRT_NETWORK_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <neural_network_runtime/neural_network_runtime.h>

struct NetTensor {
    std::string name;
    std::vector<int32_t> shape;
    OH_NN_DataType type = OH_NN_FLOAT32;
    OH_NN_TensorType role = OH_NN_TENSOR;
    std::vector<uint8_t> data;  // Of constants and parameters; of inputs: what they are fed with.

    size_t count() const;
    size_t bytes() const;
    const float *floats() const { return reinterpret_cast<const float *>(data.data()); }
};

struct NetOperation {
    OH_NN_OperationType type;
    std::string name;
    std::vector<uint32_t> parameters, inputs, outputs;
};

struct Network {
    std::vector<NetTensor> tensors;
    std::vector<NetOperation> operations;
    std::vector<uint32_t> inputs, outputs;

    bool is_input(uint32_t index) const;
    // The parameter with that role, or nullptr.
    const NetTensor *parameter(const NetOperation &operation, OH_NN_TensorType role) const;
};

// Two inputs of 1 x 2 x 2 x 3, 0 to 11 and 11 to 22, and their sum: 11, 13, … 33.
Network add_network();
// From a JSON description; docs/nnrt.md explains it. Throws DescriptionError.
Network read_network(const std::string &path);

// The outputs, worked out here in double precision by the definition of each operation.
std::vector<std::vector<double>> compute_expected(const Network &network);

#endif
