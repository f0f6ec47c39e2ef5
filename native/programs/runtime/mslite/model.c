/* OH_AI_Model*: the reference runtime's side of the C API of MindSpore Lite. */
#include "mindspore/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "devices.h"
#include "graph.h"
#include "ohforge_reference.h"

enum { WHY_BYTES = 400 };

typedef struct Model {
    Graph graph;
    Context *context; /* Belongs to the model as soon as a build was tried. */
    bool built;
} Model;

const char *ohforge_reference_mslite(void) { return "ohforge reference runtime 1 for .ms models"; }

OH_AI_ModelHandle OH_AI_ModelCreate(void) { return calloc(1, sizeof(Model)); }

void OH_AI_ModelDestroy(OH_AI_ModelHandle *handle) {
    if (!handle || !*handle) return;
    Model *model = *handle;
    OH_AI_ContextHandle context = model->context;
    graph_release(&model->graph);
    OH_AI_ContextDestroy(&context);
    free(model);
    *handle = NULL;
}

/* Domain and tag under which MindSpore Lite of the release logs. */
#define LOG_PLACE (OHFORGE_API_LEVEL >= 11 ? "C02102/MS_LITE" : "C029A0/MSLiteFwk")

static void fall_back(const char *why) {
    reference_log('W', LOG_PLACE, why);
    reference_note("mslite requested=nnrt device=cpu (%s)", why);
}

/* Says what was asked for and what computes: a status code alone would hide it. */
static void note_device(const Context *context) {
    const DeviceInfo *wanted = context->device_count ? context->devices[0] : NULL;
    for (size_t i = 0; i < context->device_count; i++)
        if (context->devices[i]->type == OH_AI_DEVICETYPE_NNRT) wanted = context->devices[i];
    if (wanted && wanted->half) reference_note("mslite fp16 was asked for, computing in float32");
    if (context->affinity || context->core_count) reference_note("mslite ignores thread affinity");
    if (!wanted || wanted->type != OH_AI_DEVICETYPE_NNRT)
        reference_note("mslite requested=%s device=cpu", !wanted || wanted->type == OH_AI_DEVICETYPE_CPU ? "cpu" : "other");
    else if (reference_device_count() == 0)
        fall_back("No NNRt Device found, fallback to CPU");
    else if (reference_falls_back())
        fall_back("current device not support the model, fallback to CPU");
    else {
        reference_log('I', LOG_PLACE, "Found NNRT subgraph count: 1");
        reference_note("mslite requested=nnrt device=nnrt (NNRTDelegate build success)");
    }
}

static OH_AI_Status take_context(Model *model, Context *context) {
    if (model->context && model->context != context) {
        OH_AI_ContextHandle old = model->context;
        OH_AI_ContextDestroy(&old);
    }
    model->context = context;
    if (context->device_count == 0) {
        reference_note("mslite the context has no device");
        return OH_AI_STATUS_LITE_ERROR;
    }
    return OH_AI_STATUS_SUCCESS;
}

static OH_AI_Status check_build(const Model *model, const void *content, OH_AI_ModelType type, const Context *context) {
    if (!model || !content || !context) return OH_AI_STATUS_LITE_NULLPTR;
    if (type == OH_AI_MODELTYPE_INVALID) return OH_AI_STATUS_LITE_PARAM_INVALID;
    if (!model->built) return OH_AI_STATUS_SUCCESS;
    reference_note("mslite the model is built already");
    return OH_AI_STATUS_LITE_ERROR;
}

/* Takes over `bytes`. Whatever is wrong with a file, the engine's answer is its common error. */
static OH_AI_Status build(Model *model, uint8_t *bytes, size_t size, Context *context) {
    char why[WHY_BYTES];
    if (!graph_load(&model->graph, bytes, size, context->threads, why, sizeof why)) {
        reference_note("mslite cannot load the model: %s", why);
        return OH_AI_STATUS_LITE_ERROR;
    }
    model->built = true;
    note_device(context);
    return OH_AI_STATUS_SUCCESS;
}

OH_AI_Status OH_AI_ModelBuild(OH_AI_ModelHandle handle, const void *model_data, size_t data_size,
                              OH_AI_ModelType model_type, const OH_AI_ContextHandle model_context) {
    OH_AI_Status status = check_build(handle, model_data, model_type, model_context);
    if (status == OH_AI_STATUS_SUCCESS) status = take_context(handle, model_context);
    if (status != OH_AI_STATUS_SUCCESS) return status;
    uint8_t *copy = malloc(data_size + 1);
    if (!copy) return OH_AI_STATUS_LITE_ERROR;
    if (data_size) memcpy(copy, model_data, data_size);
    return build(handle, copy, data_size, model_context);
}

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint8_t *bytes = NULL;
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)length + 1);
    if (bytes) *size = fread(bytes, 1, (size_t)length, file);
    fclose(file);
    return bytes;
}

OH_AI_Status OH_AI_ModelBuildFromFile(OH_AI_ModelHandle handle, const char *model_path, OH_AI_ModelType model_type,
                                      const OH_AI_ContextHandle model_context) {
    OH_AI_Status status = check_build(handle, model_path, model_type, model_context);
    if (status == OH_AI_STATUS_SUCCESS) status = take_context(handle, model_context);
    if (status != OH_AI_STATUS_SUCCESS) return status;
    size_t size = 0;
    uint8_t *bytes = read_file(model_path, &size);
    if (!bytes) {
        reference_note("mslite cannot read %s", model_path);
        return OH_AI_STATUS_LITE_ERROR;
    }
    return build(handle, bytes, size, model_context);
}

OH_AI_Status OH_AI_ModelResize(OH_AI_ModelHandle handle, const OH_AI_TensorHandleArray inputs,
                               OH_AI_ShapeInfo *shape_infos, size_t shape_info_num) {
    Model *model = handle;
    char why[WHY_BYTES];
    if (!model || !shape_infos) return OH_AI_STATUS_LITE_NULLPTR;
    Graph *graph = &model->graph;
    if (!model->built) return OH_AI_STATUS_LITE_ERROR;
    if (inputs.handle_num != graph->input_count || shape_info_num != graph->input_count)
        return OH_AI_STATUS_LITE_PARAM_INVALID;
    for (size_t i = 0; i < shape_info_num; i++) {
        const OH_AI_ShapeInfo *info = &shape_infos[i];
        if (info->shape_num > MAX_RANK) return OH_AI_STATUS_LITE_PARAM_INVALID;
        for (size_t axis = 0; axis < info->shape_num; axis++)
            if (info->shape[axis] < 1 || info->shape[axis] > INT32_MAX) return OH_AI_STATUS_LITE_PARAM_INVALID;
    }
    for (size_t i = 0; i < shape_info_num; i++) {
        Tensor *tensor = graph->inputs[i];
        tensor->rank = shape_infos[i].shape_num;
        memcpy(tensor->shape, shape_infos[i].shape, tensor->rank * sizeof *tensor->shape);
        tensor_drop_data(tensor);
    }
    if (graph_infer(graph, why, sizeof why)) return OH_AI_STATUS_SUCCESS;
    reference_note("mslite cannot resize: %s", why);
    return OH_AI_STATUS_LITE_ERROR;
}

/* Users may pass tensors of their own; their cells are copied into the model's. */
static OH_AI_Status take_input(Tensor *own, const Tensor *given) {
    size_t bytes = tensor_bytes(own);
    if (!given || !given->data || given->type != own->type || bytes == 0 || tensor_bytes(given) != bytes ||
        given->capacity < bytes)
        return OH_AI_STATUS_LITE_INPUT_TENSOR_ERROR;
    if (given == own) return OH_AI_STATUS_SUCCESS;
    if (!tensor_reserve(own)) return OH_AI_STATUS_LITE_MEMORY_FAILED;
    memmove(own->data, given->data, bytes);
    return OH_AI_STATUS_SUCCESS;
}

OH_AI_Status OH_AI_ModelPredict(OH_AI_ModelHandle handle, const OH_AI_TensorHandleArray inputs,
                                OH_AI_TensorHandleArray *outputs, const OH_AI_KernelCallBack before,
                                const OH_AI_KernelCallBack after) {
    Model *model = handle;
    char why[WHY_BYTES];
    if (!model || !outputs) return OH_AI_STATUS_LITE_NULLPTR;
    Graph *graph = &model->graph;
    if (!model->built || inputs.handle_num != graph->input_count || (inputs.handle_num && !inputs.handle_list))
        return OH_AI_STATUS_LITE_ERROR;
    for (size_t i = 0; i < graph->input_count; i++) {
        OH_AI_Status status = take_input(graph->inputs[i], inputs.handle_list[i]);
        if (status != OH_AI_STATUS_SUCCESS) return status;
    }
    bool call = before && after;
    if (!graph_run(graph, call ? before : NULL, call ? after : NULL, why, sizeof why)) {
        reference_note("mslite the run failed: %s", why);
        return OH_AI_STATUS_LITE_ERROR;
    }
    *outputs = OH_AI_ModelGetOutputs(handle);
    return OH_AI_STATUS_SUCCESS;
}

OH_AI_TensorHandleArray OH_AI_ModelGetInputs(const OH_AI_ModelHandle handle) {
    const Model *model = handle;
    if (!model || !model->built) return (OH_AI_TensorHandleArray){0, NULL};
    return (OH_AI_TensorHandleArray){model->graph.input_count, (OH_AI_TensorHandle *)model->graph.inputs};
}

OH_AI_TensorHandleArray OH_AI_ModelGetOutputs(const OH_AI_ModelHandle handle) {
    const Model *model = handle;
    if (!model || !model->built) return (OH_AI_TensorHandleArray){0, NULL};
    return (OH_AI_TensorHandleArray){model->graph.output_count, (OH_AI_TensorHandle *)model->graph.outputs};
}

static OH_AI_TensorHandle find_by_name(OH_AI_TensorHandleArray array, const char *name) {
    for (size_t i = 0; name && i < array.handle_num; i++)
        if (strcmp(((const Tensor *)array.handle_list[i])->name, name) == 0) return array.handle_list[i];
    return NULL;
}

OH_AI_TensorHandle OH_AI_ModelGetInputByTensorName(const OH_AI_ModelHandle handle, const char *tensor_name) {
    return find_by_name(OH_AI_ModelGetInputs(handle), tensor_name);
}

OH_AI_TensorHandle OH_AI_ModelGetOutputByTensorName(const OH_AI_ModelHandle handle, const char *tensor_name) {
    return find_by_name(OH_AI_ModelGetOutputs(handle), tensor_name);
}
