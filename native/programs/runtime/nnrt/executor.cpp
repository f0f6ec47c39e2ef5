// Executors: running what was compiled, from ports that either style of call fills.
#include <cstring>
#include <new>

#include "graph.hpp"

using namespace reference;

OH_NNExecutor::~OH_NNExecutor() {
    for (std::vector<Port> *ports : {&inputs, &outputs})
        for (Port &port : *ports)
            for (OH_NN_Memory *memory : port.memories) {
                delete[] static_cast<uint8_t *>(memory->data);
                delete memory;
            }
    workers_destroy(workers);
}

OH_NNExecutor *OH_NNExecutor_Construct(OH_NNCompilation *compilation) {
    if (!compilation || !compilation->built) return nullptr;
    OH_NNExecutor *executor = new (std::nothrow) OH_NNExecutor;
    if (!executor) return nullptr;
    executor->graph = compilation->graph;
    executor->device = *compilation->device;
    executor->workers = workers_create(1);
    executor->inputs.resize(executor->graph->inputs.size());
    executor->outputs.resize(executor->graph->outputs.size());
    if (!executor->workers) OH_NNExecutor_Destroy(&executor);
    return executor;
}

void OH_NNExecutor_Destroy(OH_NNExecutor **executor) {
    if (!executor) return;
    delete *executor;
    *executor = nullptr;
}

static size_t bytes_of(const Value &value) { return value.count() * item_bytes(value.type); }

OH_NN_ReturnCode OH_NNExecutor::run() {
    std::vector<Value> values = start_values(*graph);
    for (const std::vector<Port> *ports : {&inputs, &outputs})
        for (const Port &port : *ports)
            if (!port.set) return OH_NN_INVALID_PARAMETER;
    for (size_t i = 0; i < inputs.size(); i++) {
        Value &value = values[graph->inputs[i]];
        value.type = input(i).description.type;
        value.shape = inputs[i].shape;
        value.cells = inputs[i].data;
    }
    std::string why;
    if (!compute(*graph, values, false, workers, why)) {
        reference_note("nnrt the run failed: %s", why.c_str());
        return OH_NN_FAILED;
    }
    result_shapes.clear();
    for (size_t i = 0; i < outputs.size(); i++) {
        const Value &value = values[graph->outputs[i]];
        if (bytes_of(value) > outputs[i].length) {
            reference_note("nnrt output %zu needs %zu bytes, its buffer has %zu", i, bytes_of(value), outputs[i].length);
            return OH_NN_INVALID_PARAMETER;
        }
        std::memcpy(outputs[i].data, value.cells, bytes_of(value));
        result_shapes.push_back(value.shape);
    }
    ran = true;
    return OH_NN_SUCCESS;
}

// Before a run 3.2 has no shape to give, 5.0 that of the description.
OH_NN_ReturnCode OH_NNExecutor_GetOutputShape(OH_NNExecutor *executor, uint32_t index, int32_t **shape, uint32_t *length) {
    if (!executor || !shape || *shape || !length || index >= executor->outputs.size()) return OH_NN_INVALID_PARAMETER;
    if (!executor->ran && !new_rules) return OH_NN_OPERATION_FORBIDDEN;
    Shape &known = executor->outputs[index].shape;
    known = executor->ran ? executor->result_shapes[index] : executor->output(index).description.shape;
    *shape = known.data();
    *length = static_cast<uint32_t>(known.size());
    return OH_NN_SUCCESS;
}

#if OHFORGE_API_LEVEL >= 11
OH_NN_ReturnCode OH_NNExecutor_GetInputCount(const OH_NNExecutor *executor, size_t *count) {
    if (!executor || !count) return OH_NN_INVALID_PARAMETER;
    *count = executor->inputs.size();
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNExecutor_GetOutputCount(const OH_NNExecutor *executor, size_t *count) {
    if (!executor || !count) return OH_NN_INVALID_PARAMETER;
    *count = executor->outputs.size();
    return OH_NN_SUCCESS;
}

static NN_TensorDesc *copy_of(const Description &description) { return new (std::nothrow) NN_TensorDesc{description}; }

NN_TensorDesc *OH_NNExecutor_CreateInputTensorDesc(const OH_NNExecutor *executor, size_t index) {
    if (!executor || index >= executor->inputs.size()) return nullptr;
    return copy_of(executor->input(index).description);
}

NN_TensorDesc *OH_NNExecutor_CreateOutputTensorDesc(const OH_NNExecutor *executor, size_t index) {
    if (!executor || index >= executor->outputs.size()) return nullptr;
    Description description = executor->output(index).description;
    if (executor->ran) description.shape = executor->result_shapes[index];
    return copy_of(description);
}

OH_NN_ReturnCode OH_NNExecutor_GetInputDimRange(const OH_NNExecutor *executor, size_t index, size_t **least, size_t **most,
                                                size_t *length) {
    static std::vector<size_t> low, high;  // Kept until the next call, as the caller frees nothing.
    if (!executor || !least || !most || !length || index >= executor->inputs.size()) return OH_NN_INVALID_PARAMETER;
    low.clear(), high.clear();
    for (int32_t size : executor->input(index).description.shape) {
        low.push_back(size < 0 ? 1 : static_cast<size_t>(size));
        high.push_back(size < 0 ? INT32_MAX : static_cast<size_t>(size));
    }
    *least = low.data(), *most = high.data(), *length = low.size();
    return OH_NN_SUCCESS;
}

// A driver runs at once and lives as long as the program: there is nothing to be called back for.
OH_NN_ReturnCode OH_NNExecutor_SetOnRunDone(OH_NNExecutor *executor, NN_OnRunDone call) {
    return executor && call ? OH_NN_OPERATION_FORBIDDEN : OH_NN_INVALID_PARAMETER;
}

OH_NN_ReturnCode OH_NNExecutor_SetOnServiceDied(OH_NNExecutor *executor, NN_OnServiceDied call) {
    return executor && call ? OH_NN_OPERATION_FORBIDDEN : OH_NN_INVALID_PARAMETER;
}

static bool fits(const Description &wanted, const Description &given) {
    if (wanted.type != given.type || wanted.shape.size() != given.shape.size() || given.dynamic()) return false;
    for (size_t axis = 0; axis < wanted.shape.size(); axis++)
        if (wanted.shape[axis] >= 0 && wanted.shape[axis] != given.shape[axis]) return false;
    return true;
}

static bool take_tensors(std::vector<OH_NNExecutor::Port> &ports, NN_Tensor *tensors[], size_t count) {
    if (!tensors || count != ports.size()) return false;
    for (size_t i = 0; i < count; i++) {
        NN_Tensor *tensor = tensors[i];
        if (!tensor || !tensor->data) return false;
        ports[i].shape = tensor->description.description.shape;
        ports[i].data = tensor->data;
        ports[i].length = tensor->size - tensor->offset;
        ports[i].set = true;
    }
    return true;
}

OH_NN_ReturnCode OH_NNExecutor_RunSync(OH_NNExecutor *executor, NN_Tensor *inputs[], size_t input_count,
                                       NN_Tensor *outputs[], size_t output_count) {
    if (!executor || !take_tensors(executor->inputs, inputs, input_count) ||
        !take_tensors(executor->outputs, outputs, output_count))
        return OH_NN_INVALID_PARAMETER;
    for (size_t i = 0; i < input_count; i++) {
        const Description &given = inputs[i]->description.description;
        if (!fits(executor->input(i).description, given) || !given.bytes() || *given.bytes() > executor->inputs[i].length)
            return OH_NN_INVALID_PARAMETER;
    }
    return executor->run();
}

OH_NN_ReturnCode OH_NNExecutor_RunAsync(OH_NNExecutor *executor, NN_Tensor *inputs[], size_t, NN_Tensor *outputs[], size_t,
                                        int32_t, void *user_data) {
    return executor && inputs && outputs && user_data ? OH_NN_OPERATION_FORBIDDEN : OH_NN_INVALID_PARAMETER;
}
#endif
