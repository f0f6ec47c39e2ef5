// The style of API level 11: descriptions and tensors as handles, and one call that runs.
#include <cstring>

#include "engine.hpp"

const char *style() { return "API 11"; }

using OwnedDescription = Owned<NN_TensorDesc, OH_NN_ReturnCode>;
using OwnedTensor = Owned<NN_Tensor, OH_NN_ReturnCode>;

static void add_tensor(OH_NNModel *model, const NetTensor &tensor, uint32_t index) {
    OwnedDescription description(CALL(OH_NNTensorDesc_Create), OH_NNTensorDesc_Destroy);
    CALL(OH_NNTensorDesc_SetDataType, description.get(), tensor.type);
    CALL(OH_NNTensorDesc_SetShape, description.get(), tensor.shape.data(), tensor.shape.size());
    CALL(OH_NNTensorDesc_SetFormat, description.get(), tensor.shape.size() == 4 ? OH_NN_FORMAT_NHWC : OH_NN_FORMAT_ND);
    CALL(OH_NNModel_AddTensorToModel, model, description.get());
    CALL(OH_NNModel_SetTensorType, model, index, tensor.role);
}

static OwnedTensor make_tensor(size_t device, NN_TensorDesc *given, const char *function) {
    OwnedDescription description(check(given, function), OH_NNTensorDesc_Destroy);
    return {CALL(OH_NNTensor_Create, device, description.get()), OH_NNTensor_Destroy};
}

static size_t size_of(const NN_Tensor *tensor) {
    size_t bytes = 0;
    CALL(OH_NNTensor_GetSize, tensor, &bytes);
    return bytes;
}

static std::vector<int32_t> shape_of(const NN_Tensor *tensor) {
    int32_t *shape = nullptr;
    size_t length = 0;
    CALL(OH_NNTensorDesc_GetShape, CALL(OH_NNTensor_GetTensorDesc, tensor), &shape, &length);
    return {shape, shape + length};
}

struct Ports {
    std::vector<OwnedTensor> owned;
    std::vector<NN_Tensor *> handles;

    void add(OwnedTensor tensor) {
        handles.push_back(tensor.get());
        owned.push_back(std::move(tensor));
    }
};

static void make_ports(OH_NNExecutor *executor, const Network &network, size_t device, Ports &inputs, Ports &outputs) {
    size_t count = 0;
    CALL(OH_NNExecutor_GetInputCount, executor, &count);
    if (count != network.inputs.size()) throw CallFailed("OH_NNExecutor_GetInputCount", OH_NN_FAILED);
    for (size_t i = 0; i < count; i++) {
        inputs.add(make_tensor(device, OH_NNExecutor_CreateInputTensorDesc(executor, i), "OH_NNExecutor_CreateInputTensorDesc"));
        const NetTensor &tensor = network.tensors[network.inputs[i]];
        if (size_of(inputs.handles[i]) < tensor.data.size()) throw CallFailed("OH_NNTensor_GetSize", OH_NN_FAILED);
        std::memcpy(CALL(OH_NNTensor_GetDataBuffer, inputs.handles[i]), tensor.data.data(), tensor.data.size());
    }
    CALL(OH_NNExecutor_GetOutputCount, executor, &count);
    if (count != network.outputs.size()) throw CallFailed("OH_NNExecutor_GetOutputCount", OH_NN_FAILED);
    for (size_t i = 0; i < count; i++)
        outputs.add(make_tensor(device, OH_NNExecutor_CreateOutputTensorDesc(executor, i), "OH_NNExecutor_CreateOutputTensorDesc"));
}

Run run_network(const Network &network, const Device &device, const Options &options) {
    Run run;
    double start = now_ms();
    Owned model(CALL(OH_NNModel_Construct), OH_NNModel_Destroy);
    for (uint32_t i = 0; i < network.tensors.size(); i++) add_tensor(model.get(), network.tensors[i], i);
    finish_model(model.get(), network);
    run.supported = count_supported(model.get(), device.id);
    // The model must live until Build: the compilation only keeps its address.
    Owned compilation(CALL(OH_NNCompilation_Construct, model.get()), OH_NNCompilation_Destroy);
    compile(compilation.get(), device, options);
    Owned executor(CALL(OH_NNExecutor_Construct, compilation.get()), OH_NNExecutor_Destroy);
    run.build_ms = now_ms() - start;
    Ports inputs, outputs;
    make_ports(executor.get(), network, device.id, inputs, outputs);
    for (int i = 0; i < options.loops; i++) {
        start = now_ms();
        CALL(OH_NNExecutor_RunSync, executor.get(), inputs.handles.data(), inputs.handles.size(), outputs.handles.data(),
             outputs.handles.size());
        run.milliseconds.push_back(now_ms() - start);
    }
    for (const NN_Tensor *tensor : outputs.handles) {
        const float *data = static_cast<const float *>(CALL(OH_NNTensor_GetDataBuffer, tensor));
        run.outputs.emplace_back(data, data + size_of(tensor) / sizeof(float));
        run.shapes.push_back(shape_of(tensor));
    }
    return run;
}
