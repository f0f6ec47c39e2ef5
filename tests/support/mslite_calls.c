/* Between the program mslite and its engine: writes down the calls that options and ownership decide, and hands them on.
 *
 * The program is compiled with -DOH_AI_X=recorded_X for each of these X (tests/integration/native/programs/test_mslite_calls.py). */
#include <stdarg.h>
#include <stdio.h>

#include <mindspore/context.h>
#include <mindspore/model.h>

static void record(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("call: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void recorded_ContextSetThreadNum(OH_AI_ContextHandle context, int32_t threads) {
    record("ContextSetThreadNum %d", (int)threads);
    OH_AI_ContextSetThreadNum(context, threads);
}

void recorded_ContextSetThreadAffinityMode(OH_AI_ContextHandle context, int mode) {
    record("ContextSetThreadAffinityMode %d", mode);
    OH_AI_ContextSetThreadAffinityMode(context, mode);
}

OH_AI_DeviceInfoHandle recorded_DeviceInfoCreate(OH_AI_DeviceType type) {
    record("DeviceInfoCreate %d", (int)type);
    return OH_AI_DeviceInfoCreate(type);
}

OH_AI_DeviceInfoHandle recorded_CreateNNRTDeviceInfoByName(const char *name) {
    record("CreateNNRTDeviceInfoByName %s", name);
    return OH_AI_CreateNNRTDeviceInfoByName(name);
}

void recorded_DeviceInfoSetEnableFP16(OH_AI_DeviceInfoHandle device, bool half) {
    record("DeviceInfoSetEnableFP16 %d", (int)half);
    OH_AI_DeviceInfoSetEnableFP16(device, half);
}

void recorded_DeviceInfoSetPerformanceMode(OH_AI_DeviceInfoHandle device, OH_AI_PerformanceMode mode) {
    record("DeviceInfoSetPerformanceMode %d", (int)mode);
    OH_AI_DeviceInfoSetPerformanceMode(device, mode);
}

void recorded_DeviceInfoSetPriority(OH_AI_DeviceInfoHandle device, OH_AI_Priority priority) {
    record("DeviceInfoSetPriority %d", (int)priority);
    OH_AI_DeviceInfoSetPriority(device, priority);
}

OH_AI_Status recorded_ModelBuildFromFile(OH_AI_ModelHandle model, const char *path, OH_AI_ModelType type,
                                         const OH_AI_ContextHandle context) {
    OH_AI_Status status = OH_AI_ModelBuildFromFile(model, path, type, context);
    record("ModelBuildFromFile %d", (int)status);
    return status;
}

OH_AI_Status recorded_ModelPredict(OH_AI_ModelHandle model, const OH_AI_TensorHandleArray inputs, OH_AI_TensorHandleArray *outputs,
                                   const OH_AI_KernelCallBack before, const OH_AI_KernelCallBack after) {
    record("ModelPredict");
    return OH_AI_ModelPredict(model, inputs, outputs, before, after);
}

void recorded_ContextDestroy(OH_AI_ContextHandle *context) {
    record("ContextDestroy");
    OH_AI_ContextDestroy(context);
}

void recorded_ModelDestroy(OH_AI_ModelHandle *model) {
    record("ModelDestroy");
    OH_AI_ModelDestroy(model);
}
