// The executor calls of API level 9: buffers and memories instead of tensors.
#include <algorithm>
#include <new>

#include "graph.hpp"

using namespace reference;

using Port = OH_NNExecutor::Port;

static OH_NN_ReturnCode check_input(const OH_NNExecutor *executor, uint32_t index, const OH_NN_Tensor *tensor, size_t length) {
    if (!executor || !tensor || index >= executor->inputs.size()) return OH_NN_INVALID_PARAMETER;
    const ModelTensor &wanted = executor->input(index);
    const Shape &shape = wanted.description.shape;
    if (tensor->dataType != wanted.description.type || tensor->type != OH_NN_TENSOR || !tensor->dimensions ||
        tensor->dimensionCount != shape.size())
        return OH_NN_INVALID_PARAMETER;
    for (size_t axis = 0; axis < shape.size(); axis++) {
        int32_t size = tensor->dimensions[axis];
        if (size <= 0 || (shape[axis] >= 0 && shape[axis] != size)) return OH_NN_INVALID_PARAMETER;
    }
    Description given = wanted.description;
    given.shape.assign(tensor->dimensions, tensor->dimensions + tensor->dimensionCount);
    std::optional<size_t> bytes = given.bytes();
    return bytes && *bytes <= length ? OH_NN_SUCCESS : OH_NN_INVALID_PARAMETER;
}

static void fill(Port &port, void *data, size_t length) {
    port.data = data;
    port.length = length;
    port.set = true;
}

OH_NN_ReturnCode OH_NNExecutor_SetInput(OH_NNExecutor *executor, uint32_t index, const OH_NN_Tensor *tensor,
                                        const void *data, size_t length) {
    if (!data) return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_input(executor, index, tensor, length);
    if (code != OH_NN_SUCCESS) return code;
    Port &port = executor->inputs[index];
    port.shape.assign(tensor->dimensions, tensor->dimensions + tensor->dimensionCount);
    fill(port, const_cast<void *>(data), length);
    return OH_NN_SUCCESS;
}

static OH_NN_ReturnCode check_output(const OH_NNExecutor *executor, uint32_t index, size_t length) {
    if (!executor || length == 0 || index >= executor->outputs.size()) return OH_NN_INVALID_PARAMETER;
    std::optional<size_t> bytes = executor->output(index).description.bytes();
    return !bytes || *bytes <= length ? OH_NN_SUCCESS : OH_NN_INVALID_PARAMETER;
}

OH_NN_ReturnCode OH_NNExecutor_SetOutput(OH_NNExecutor *executor, uint32_t index, void *data, size_t length) {
    if (!data) return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_output(executor, index, length);
    if (code == OH_NN_SUCCESS) fill(executor->outputs[index], data, length);
    return code;
}

OH_NN_ReturnCode OH_NNExecutor_Run(OH_NNExecutor *executor) { return executor ? executor->run() : OH_NN_INVALID_PARAMETER; }

static OH_NN_Memory *allocate(std::vector<Port> &ports, uint32_t index, size_t length) {
    if (index >= ports.size() || length == 0) return nullptr;
    uint8_t *data = new (std::nothrow) uint8_t[length]();
    OH_NN_Memory *memory = data ? new (std::nothrow) OH_NN_Memory{data, length} : nullptr;
    if (!memory)
        delete[] data;
    else
        ports[index].memories.push_back(memory);
    return memory;
}

static void release(std::vector<Port> &ports, uint32_t index, OH_NN_Memory **memory) {
    if (index >= ports.size() || !memory || !*memory) return;
    std::vector<OH_NN_Memory *> &known = ports[index].memories;
    auto found = std::find(known.begin(), known.end(), *memory);
    if (found == known.end()) return;
    if (ports[index].data == (*memory)->data) ports[index].set = false;
    delete[] static_cast<uint8_t *>((*memory)->data);
    delete *memory;
    known.erase(found);
    *memory = nullptr;
}

static bool owns(const Port &port, const OH_NN_Memory *memory) {
    return std::count(port.memories.begin(), port.memories.end(), memory) > 0;
}

OH_NN_Memory *OH_NNExecutor_AllocateInputMemory(OH_NNExecutor *executor, uint32_t index, size_t length) {
    return executor ? allocate(executor->inputs, index, length) : nullptr;
}

OH_NN_Memory *OH_NNExecutor_AllocateOutputMemory(OH_NNExecutor *executor, uint32_t index, size_t length) {
    return executor ? allocate(executor->outputs, index, length) : nullptr;
}

void OH_NNExecutor_DestroyInputMemory(OH_NNExecutor *executor, uint32_t index, OH_NN_Memory **memory) {
    if (executor) release(executor->inputs, index, memory);
}

void OH_NNExecutor_DestroyOutputMemory(OH_NNExecutor *executor, uint32_t index, OH_NN_Memory **memory) {
    if (executor) release(executor->outputs, index, memory);
}

OH_NN_ReturnCode OH_NNExecutor_SetInputWithMemory(OH_NNExecutor *executor, uint32_t index, const OH_NN_Tensor *tensor,
                                                  const OH_NN_Memory *memory) {
    if (!memory) return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_input(executor, index, tensor, memory->length);
    if (code != OH_NN_SUCCESS) return code;
    Port &port = executor->inputs[index];
    if (!owns(port, memory)) return OH_NN_INVALID_PARAMETER;
    port.shape.assign(tensor->dimensions, tensor->dimensions + tensor->dimensionCount);
    fill(port, memory->data, memory->length);
    return OH_NN_SUCCESS;
}

OH_NN_ReturnCode OH_NNExecutor_SetOutputWithMemory(OH_NNExecutor *executor, uint32_t index, const OH_NN_Memory *memory) {
    if (!memory) return OH_NN_INVALID_PARAMETER;
    OH_NN_ReturnCode code = check_output(executor, index, memory->length);
    if (code != OH_NN_SUCCESS) return code;
    if (!owns(executor->outputs[index], memory)) return OH_NN_INVALID_PARAMETER;
    fill(executor->outputs[index], memory->data, memory->length);
    return OH_NN_SUCCESS;
}
