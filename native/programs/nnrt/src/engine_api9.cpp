// The style of API level 9: tensors as structs, buffers set one by one. Deprecated later, but still there.
#include "engine.hpp"

const char *style() { return "API 9"; }

static OH_NN_Tensor struct_of(const NetTensor &tensor) {
    return {tensor.type, static_cast<uint32_t>(tensor.shape.size()), tensor.shape.data(), nullptr, tensor.role};
}

static void set_buffers(OH_NNExecutor *executor, const Network &network, Run &run) {
    for (uint32_t i = 0; i < network.inputs.size(); i++) {
        const NetTensor &tensor = network.tensors[network.inputs[i]];
        OH_NN_Tensor description = struct_of(tensor);
        CALL(OH_NNExecutor_SetInput, executor, i, &description, tensor.data.data(), tensor.data.size());
    }
    for (uint32_t i = 0; i < network.outputs.size(); i++) {
        run.outputs.emplace_back(network.tensors[network.outputs[i]].count());
        CALL(OH_NNExecutor_SetOutput, executor, i, run.outputs[i].data(), run.outputs[i].size() * sizeof(float));
    }
}

Run run_network(const Network &network, const Device &device, const Options &options) {
    Run run;
    double start = now_ms();
    Owned model(CALL(OH_NNModel_Construct), OH_NNModel_Destroy);
    for (const NetTensor &tensor : network.tensors) {
        OH_NN_Tensor description = struct_of(tensor);
        CALL(OH_NNModel_AddTensor, model.get(), &description);
    }
    finish_model(model.get(), network);
    run.supported = count_supported(model.get(), device.id);
    Owned compilation(CALL(OH_NNCompilation_Construct, model.get()), OH_NNCompilation_Destroy);
    compile(compilation.get(), device, options);
    Owned executor(CALL(OH_NNExecutor_Construct, compilation.get()), OH_NNExecutor_Destroy);
    run.build_ms = now_ms() - start;
    set_buffers(executor.get(), network, run);
    for (int i = 0; i < options.loops; i++) {
        start = now_ms();
        CALL(OH_NNExecutor_Run, executor.get());
        run.milliseconds.push_back(now_ms() - start);
    }
    for (uint32_t i = 0; i < network.outputs.size(); i++) {
        int32_t *shape = nullptr;
        uint32_t length = 0;
        CALL(OH_NNExecutor_GetOutputShape, executor.get(), i, &shape, &length);
        run.shapes.emplace_back(shape, shape + length);
    }
    return run;
}
