/* The NNRt side of contexts (API 10): devices by list, name and kind. */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "devices.h"

#if OHFORGE_API_LEVEL >= 10

enum { NAME_BYTES = 128 };

struct NNRTDeviceDesc {
    size_t id;
    OH_AI_NNRTDeviceType type;
    char name[NAME_BYTES];
};

NNRTDeviceDesc *OH_AI_GetAllNNRTDeviceDescs(size_t *num) {
    if (!num) return NULL;
    *num = reference_device_count();
    if (*num == 0) return NULL;
    NNRTDeviceDesc *descs = calloc(*num, sizeof *descs);
    if (!descs) {
        *num = 0;
        return NULL;
    }
    for (size_t i = 0; i < *num; i++) {
        const ReferenceDevice *device = reference_device(i);
        descs[i].id = device->id;
        descs[i].type = (OH_AI_NNRTDeviceType)device->type;
        strncpy(descs[i].name, device->name, NAME_BYTES - 1);
    }
    return descs;
}

NNRTDeviceDesc *OH_AI_GetElementOfNNRTDeviceDescs(NNRTDeviceDesc *descs, size_t index) {
    return descs ? descs + index : NULL;
}

void OH_AI_DestroyAllNNRTDeviceDescs(NNRTDeviceDesc **desc) {
    if (!desc) return;
    free(*desc);
    *desc = NULL;
}

size_t OH_AI_GetDeviceIdFromNNRTDeviceDesc(const NNRTDeviceDesc *desc) { return desc ? desc->id : 0; }

const char *OH_AI_GetNameFromNNRTDeviceDesc(const NNRTDeviceDesc *desc) { return desc ? desc->name : NULL; }

OH_AI_NNRTDeviceType OH_AI_GetTypeFromNNRTDeviceDesc(const NNRTDeviceDesc *desc) {
    return desc ? desc->type : OH_AI_NNRTDEVICE_OTHERS;
}

static OH_AI_DeviceInfoHandle info_for(const ReferenceDevice *device) {
    OH_AI_DeviceInfoHandle info = OH_AI_DeviceInfoCreate(OH_AI_DEVICETYPE_NNRT);
    OH_AI_DeviceInfoSetDeviceId(info, device->id);
    return info;
}

OH_AI_DeviceInfoHandle OH_AI_CreateNNRTDeviceInfoByName(const char *name) {
    for (size_t i = 0; name && i < reference_device_count(); i++)
        if (strncmp(reference_device(i)->name, name, NAME_BYTES - 1) == 0) return info_for(reference_device(i));
    return NULL;
}

OH_AI_DeviceInfoHandle OH_AI_CreateNNRTDeviceInfoByType(OH_AI_NNRTDeviceType type) {
    for (size_t i = 0; i < reference_device_count(); i++)
        if (reference_device(i)->type == (int)type) return info_for(reference_device(i));
    return NULL;
}

void OH_AI_DeviceInfoSetDeviceId(OH_AI_DeviceInfoHandle handle, size_t device_id) {
    DeviceInfo *device = handle;
    if (device && device->type == OH_AI_DEVICETYPE_NNRT) device->device_id = device_id;
}

size_t OH_AI_DeviceInfoGetDeviceId(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? device->device_id : 0;
}

void OH_AI_DeviceInfoSetPerformanceMode(OH_AI_DeviceInfoHandle handle, OH_AI_PerformanceMode mode) {
    DeviceInfo *device = handle;
    if (device) device->performance = mode;
}

OH_AI_PerformanceMode OH_AI_DeviceInfoGetPerformanceMode(const OH_AI_DeviceInfoHandle handle) {
    const DeviceInfo *device = handle;
    return device ? (OH_AI_PerformanceMode)device->performance : OH_AI_PERFORMANCE_NONE;
}

void OH_AI_DeviceInfoSetPriority(OH_AI_DeviceInfoHandle handle, OH_AI_Priority priority) {
    DeviceInfo *device = handle;
    if (device) device->priority = priority;
}

OH_AI_Status OH_AI_DeviceInfoAddExtension(OH_AI_DeviceInfoHandle handle, const char *name, const char *value,
                                          size_t value_size) {
    if (!handle || !name || !value || value_size == 0) return OH_AI_STATUS_LITE_NULLPTR;
    return OH_AI_STATUS_SUCCESS; /* The reference device has no settings of its own. */
}

#endif
