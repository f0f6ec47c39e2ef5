#include "context.h"

#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text) {
    char *copy = text ? malloc(strlen(text) + 1) : NULL;
    if (copy) strcpy(copy, text);
    return copy;
}

OH_AI_ContextHandle OH_AI_ContextCreate(void) {
    Context *context = calloc(1, sizeof *context);
    if (context) context->threads = 2;
    return context;
}

void OH_AI_ContextDestroy(OH_AI_ContextHandle *handle) {
    if (!handle || !*handle) return;
    Context *context = *handle;
    for (size_t i = 0; i < context->device_count; i++) {
        OH_AI_DeviceInfoHandle device = context->devices[i];
        OH_AI_DeviceInfoDestroy(&device);
    }
    free(context->cores);
    free(context);
    *handle = NULL;
}

void OH_AI_ContextSetThreadNum(OH_AI_ContextHandle handle, int32_t thread_num) {
    Context *context = handle;
    if (context) context->threads = thread_num;
}

int32_t OH_AI_ContextGetThreadNum(const OH_AI_ContextHandle handle) {
    const Context *context = handle;
    return context ? context->threads : 0;
}

void OH_AI_ContextSetThreadAffinityMode(OH_AI_ContextHandle handle, int mode) {
    Context *context = handle;
    if (context) context->affinity = mode;
}

int OH_AI_ContextGetThreadAffinityMode(const OH_AI_ContextHandle handle) {
    const Context *context = handle;
    return context ? context->affinity : 0;
}

void OH_AI_ContextSetThreadAffinityCoreList(OH_AI_ContextHandle handle, const int32_t *core_list, size_t core_num) {
    Context *context = handle;
    if (!context || (!core_list && core_num) || core_num > 1024) return;
    int32_t *copy = malloc((core_num + 1) * sizeof *copy);
    if (!copy) return;
    if (core_num) memcpy(copy, core_list, core_num * sizeof *copy);
    free(context->cores);
    context->cores = copy;
    context->core_count = core_num;
}

const int32_t *OH_AI_ContextGetThreadAffinityCoreList(const OH_AI_ContextHandle handle, size_t *core_num) {
    const Context *context = handle;
    if (!context || !core_num) return NULL;
    *core_num = context->core_count;
    return context->cores;
}

void OH_AI_ContextSetEnableParallel(OH_AI_ContextHandle handle, bool is_parallel) {
    Context *context = handle;
    if (context) context->parallel = is_parallel;
}

bool OH_AI_ContextGetEnableParallel(const OH_AI_ContextHandle handle) {
    const Context *context = handle;
    return context && context->parallel;
}

void OH_AI_ContextAddDeviceInfo(OH_AI_ContextHandle handle, OH_AI_DeviceInfoHandle device_info) {
    Context *context = handle;
    if (!context || !device_info) return;
    if (context->device_count == MAX_DEVICES) {
        OH_AI_DeviceInfoDestroy(&device_info);
        return;
    }
    context->devices[context->device_count++] = device_info;
}

OH_AI_DeviceInfoHandle OH_AI_DeviceInfoCreate(OH_AI_DeviceType device_type) {
    bool known = device_type == OH_AI_DEVICETYPE_CPU || device_type == OH_AI_DEVICETYPE_GPU ||
                 device_type == OH_AI_DEVICETYPE_KIRIN_NPU || device_type == OH_AI_DEVICETYPE_NNRT;
    /* OpenHarmony 3.2 takes any type; from 4.1 on unknown ones give NULL. */
    if (!known && OHFORGE_API_LEVEL >= 11) return NULL;
    DeviceInfo *device = calloc(1, sizeof *device);
    if (device) device->type = device_type;
    return device;
}

void OH_AI_DeviceInfoDestroy(OH_AI_DeviceInfoHandle *handle) {
    if (!handle || !*handle) return;
    DeviceInfo *device = *handle;
    free(device->provider);
    free(device->provider_device);
    free(device);
    *handle = NULL;
}

void OH_AI_DeviceInfoSetProvider(OH_AI_DeviceInfoHandle handle, const char *provider) {
    DeviceInfo *device = handle;
    if (!device) return;
    free(device->provider);
    device->provider = copy_text(provider);
}

const char *OH_AI_DeviceInfoGetProvider(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? device->provider : NULL;
}

void OH_AI_DeviceInfoSetProviderDevice(OH_AI_DeviceInfoHandle handle, const char *name) {
    DeviceInfo *device = handle;
    if (!device) return;
    free(device->provider_device);
    device->provider_device = copy_text(name);
}

const char *OH_AI_DeviceInfoGetProviderDevice(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? device->provider_device : NULL;
}

OH_AI_DeviceType OH_AI_DeviceInfoGetDeviceType(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? device->type : OH_AI_DEVICETYPE_INVALID;
}

void OH_AI_DeviceInfoSetEnableFP16(OH_AI_DeviceInfoHandle handle, bool is_fp16) {
    DeviceInfo *device = handle;
    if (device) device->half = is_fp16;
}

bool OH_AI_DeviceInfoGetEnableFP16(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device && device->half;
}

void OH_AI_DeviceInfoSetFrequency(OH_AI_DeviceInfoHandle handle, int frequency) {
    DeviceInfo *device = handle;
    if (device) device->frequency = frequency;
}

int OH_AI_DeviceInfoGetFrequency(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? device->frequency : -1;
}
