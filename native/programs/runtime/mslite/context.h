#ifndef OHFORGE_CONTEXT_H
#define OHFORGE_CONTEXT_H

#include "mindspore/context.h"

enum { MAX_DEVICES = 8 };

typedef struct DeviceInfo {
    OH_AI_DeviceType type;
    char *provider, *provider_device;
    bool half;
    int frequency;
    size_t device_id;
    int performance, priority;
} DeviceInfo;

typedef struct Context {
    int32_t threads, *cores;
    int affinity;
    bool parallel;
    size_t core_count;
    DeviceInfo *devices[MAX_DEVICES];
    size_t device_count;
} Context;


#endif
