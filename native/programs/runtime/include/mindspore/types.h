/* Kinds of models, devices and modes of the MindSpore Lite C API: our own declarations of its ABI. */
#ifndef OHFORGE_MINDSPORE_TYPES_H
#define OHFORGE_MINDSPORE_TYPES_H

/* API level whose functions are declared; the level of the SDK that a program is meant for. */
#ifndef OHFORGE_API_LEVEL
#define OHFORGE_API_LEVEL 12
#endif

#define OH_AI_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum OH_AI_ModelType {
    OH_AI_MODELTYPE_MINDIR = 0,
    OH_AI_MODELTYPE_INVALID = (int)0xFFFFFFFFu
} OH_AI_ModelType;

typedef enum OH_AI_DeviceType {
    OH_AI_DEVICETYPE_CPU = 0,
    OH_AI_DEVICETYPE_GPU = 1,
    OH_AI_DEVICETYPE_KIRIN_NPU = 2,
    OH_AI_DEVICETYPE_NNRT = 60,
    OH_AI_DEVICETYPE_INVALID = 100
} OH_AI_DeviceType;

#if OHFORGE_API_LEVEL >= 10
typedef enum OH_AI_NNRTDeviceType {
    OH_AI_NNRTDEVICE_OTHERS = 0,
    OH_AI_NNRTDEVICE_CPU = 1,
    OH_AI_NNRTDEVICE_GPU = 2,
    OH_AI_NNRTDEVICE_ACCELERATOR = 3
} OH_AI_NNRTDeviceType;

typedef enum OH_AI_PerformanceMode {
    OH_AI_PERFORMANCE_NONE = 0,
    OH_AI_PERFORMANCE_LOW = 1,
    OH_AI_PERFORMANCE_MEDIUM = 2,
    OH_AI_PERFORMANCE_HIGH = 3,
    OH_AI_PERFORMANCE_EXTREME = 4
} OH_AI_PerformanceMode;

typedef enum OH_AI_Priority {
    OH_AI_PRIORITY_NONE = 0,
    OH_AI_PRIORITY_LOW = 1,
    OH_AI_PRIORITY_MEDIUM = 2,
    OH_AI_PRIORITY_HIGH = 3
} OH_AI_Priority;

typedef struct NNRTDeviceDesc NNRTDeviceDesc;
#endif

#ifdef __cplusplus
}
#endif
#endif
