// The parameters of operations: which there are, of which type and number, and reading them.
#ifndef OHFORGE_NNRT_PARAMETERS_HPP
#define OHFORGE_NNRT_PARAMETERS_HPP

#include "graph.hpp"

namespace reference {

struct ParameterRule {
    OH_NN_TensorType role;
    OH_NN_DataType type;
    size_t count, other_count;  // `other_count`: a second number that is taken as well; 0: none
    int level;                  // API level that brought it
};

struct OperationRule {
    OH_NN_OperationType type;
    size_t inputs, most_inputs;
    std::vector<ParameterRule> parameters;
    bool extra_parameters;  // 3.2 and 4.1 let surplus ones pass where an operation has none.
};

const OperationRule *find_rule(OH_NN_OperationType type);

// The parameter of an operation by its role; nullptr when it was not given.
const ModelTensor *find_parameter(const Graph &graph, const Operation &operation, OH_NN_TensorType role);

// Its numbers as 64-bit integers, or `otherwise`.
std::vector<int64_t> integers(const ModelTensor *parameter, std::vector<int64_t> otherwise);
float number(const ModelTensor *parameter, float otherwise);
bool truth(const ModelTensor *parameter, bool otherwise);

}  // namespace reference

#endif
