// The inside of the reference runtime of NNRt: what a model is, and how it is checked and computed.
//
// Rules and return codes are those of OpenHarmony 3.2 below API level 11, and of 5.0 from 11 on.
#ifndef OHFORGE_NNRT_GRAPH_HPP
#define OHFORGE_NNRT_GRAPH_HPP

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices.h"
#include "kernels.h"
#include "neural_network_runtime/neural_network_runtime.h"

namespace reference {

constexpr bool new_rules = OHFORGE_API_LEVEL >= 11;
constexpr int last_operation = OHFORGE_API_LEVEL >= 12 ? 108 : 56;
constexpr int last_tensor_type = OHFORGE_API_LEVEL >= 12 ? 162 : 77;

using Shape = std::vector<int32_t>;

struct Description {
    OH_NN_DataType type = OH_NN_UNKNOWN;
    OH_NN_Format format = OH_NN_FORMAT_NONE;
    Shape shape;
    std::string name;

    bool dynamic() const;
    std::optional<size_t> cells() const;  // Nothing when a dimension is open or the product is too large.
    std::optional<size_t> bytes() const;
};

size_t item_bytes(OH_NN_DataType type);  // 0 for types that have none.
bool valid_shape(const int32_t *shape, size_t rank);

struct ModelTensor {
    Description description;
    OH_NN_TensorType role = OH_NN_TENSOR;
    std::vector<uint8_t> data;
    bool has_data = false;
    std::vector<uint32_t> quantisation_bits;

    const float *floats() const { return reinterpret_cast<const float *>(data.data()); }
};

struct Operation {
    OH_NN_OperationType type;
    std::vector<uint32_t> parameters, inputs, outputs;
};

struct Graph {
    std::vector<ModelTensor> tensors;
    std::vector<Operation> operations;
    std::vector<uint32_t> inputs, outputs;

    bool dynamic() const;
};

// A tensor while the graph is computed. Shapes are always definite here.
struct Value {
    OH_NN_DataType type = OH_NN_UNKNOWN;
    Shape shape;
    std::vector<uint8_t> own;
    const void *cells = nullptr;

    size_t count() const;
    const float *floats() const { return static_cast<const float *>(cells); }
};

bool computes(OH_NN_OperationType type);  // Whether the reference runtime can.

// Checks the parameters, inputs and outputs of an operation as the real builders do when it is added.
OH_NN_ReturnCode check_operation(const Graph &graph, const Operation &operation);

// Computes the graph. `values` has one entry for each tensor, those of the inputs filled in; the outputs are then
// filled in too. With `shapes_only` nothing is computed but shapes. On failure `why` says what does not fit.
bool compute(const Graph &graph, std::vector<Value> &values, bool shapes_only, Workers *workers, std::string &why);

// Values with the constants of the graph in place.
std::vector<Value> start_values(const Graph &graph);

}  // namespace reference

struct NN_QuantParam {
    std::vector<double> scales;
    std::vector<int32_t> zero_points;
    std::vector<uint32_t> bits;
};

struct OH_NNModel {
    std::shared_ptr<reference::Graph> graph = std::make_shared<reference::Graph>();
    bool specified = false, finished = false;
    std::unique_ptr<bool[]> supported;
};

struct NN_TensorDesc {
    reference::Description description;
};

struct NN_Tensor {
    NN_TensorDesc description;
    std::vector<uint8_t> memory;
    uint8_t *data = nullptr;
    size_t size = 0, offset = 0, mapped = 0;
    int fd = -1;
    ~NN_Tensor();
};

struct OH_NNCompilation {
    const OH_NNModel *model = nullptr;  // From level 11 on: looked at in Build only, so it must live until then.
    std::shared_ptr<reference::Graph> graph;
    std::optional<size_t> device;
    std::string cache;
    const char *late_cache = nullptr;  // From level 11 on the pointer is kept, as in the real runtime.
    uint32_t cache_version = 0;
    OH_NN_PerformanceMode performance = OH_NN_PERFORMANCE_NONE;
    OH_NN_Priority priority = OH_NN_PRIORITY_NONE;
    bool half = false, build_tried = false, built = false, offline = false;
};

struct OH_NNExecutor {
    std::shared_ptr<reference::Graph> graph;
    size_t device = 0;
    Workers *workers = nullptr;
    bool ran = false;

    struct Port {
        reference::Shape shape;
        void *data = nullptr;
        size_t length = 0;
        bool set = false;
        std::vector<OH_NN_Memory *> memories;
    };
    std::vector<Port> inputs, outputs;
    std::vector<reference::Shape> result_shapes;

    ~OH_NNExecutor();
    const reference::ModelTensor &input(size_t index) const { return graph->tensors[graph->inputs[index]]; }
    const reference::ModelTensor &output(size_t index) const { return graph->tensors[graph->outputs[index]]; }
    OH_NN_ReturnCode run();  // From the ports; used by the old and the new calls alike.
};

#endif
