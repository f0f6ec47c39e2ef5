#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensors.h"

#ifndef OHFORGE_API_LEVEL
#error "OHFORGE_API_LEVEL must be the API level of the SDK"
#endif

/* Only our reference runtime exports it; with any other engine the address is 0. */
__attribute__((weak)) const char *ohforge_reference_mslite(void);

bool engine_is_reference(void) { return ohforge_reference_mslite != NULL; }

const char *engine_name(void) { return engine_is_reference() ? ohforge_reference_mslite() : "MindSpore Lite"; }

double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* The line that existing scripts look for; the status becomes the exit status, of which a shell sees the low byte. */
static int engine_failed(const char *function, OH_AI_Status status) {
    printf("%s failed, ret: %d.\n", function, (int)status);
    return (int)status;
}

#if OHFORGE_API_LEVEL >= 10
static const char *device_kind(OH_AI_NNRTDeviceType type) {
    switch (type) {
        case OH_AI_NNRTDEVICE_CPU:
            return "cpu";
        case OH_AI_NNRTDEVICE_GPU:
            return "gpu";
        case OH_AI_NNRTDEVICE_ACCELERATOR:
            return "accelerator";
        default:
            return "other";
    }
}

int list_devices(void) {
    size_t count = 0;
    NNRTDeviceDesc *devices = OH_AI_GetAllNNRTDeviceDescs(&count);
    for (size_t i = 0; devices && i < count; i++) {
        const NNRTDeviceDesc *device = OH_AI_GetElementOfNNRTDeviceDescs(devices, i);
        printf("nnrt device: %s (%s, id %zu)\n", OH_AI_GetNameFromNNRTDeviceDesc(device),
               device_kind(OH_AI_GetTypeFromNNRTDeviceDesc(device)), OH_AI_GetDeviceIdFromNNRTDeviceDesc(device));
    }
    if (devices) OH_AI_DestroyAllNNRTDeviceDescs(&devices);
    if (count == 0) puts("nnrt devices: none");
    return (int)count;
}

static OH_AI_DeviceInfoHandle first_nnrt_device(void) {
    size_t count = 0;
    NNRTDeviceDesc *devices = OH_AI_GetAllNNRTDeviceDescs(&count);
    OH_AI_DeviceInfoHandle info = NULL;
    if (devices && count)
        info = OH_AI_CreateNNRTDeviceInfoByName(OH_AI_GetNameFromNNRTDeviceDesc(OH_AI_GetElementOfNNRTDeviceDescs(devices, 0)));
    if (devices) OH_AI_DestroyAllNNRTDeviceDescs(&devices);
    return info;
}

static OH_AI_DeviceInfoHandle nnrt_device(const Options *options) {
    bool named = options->device[4] == ':';
    OH_AI_DeviceInfoHandle info = named ? OH_AI_CreateNNRTDeviceInfoByName(options->device + 5) : first_nnrt_device();
    if (!info) return NULL;
    if (options->performance) OH_AI_DeviceInfoSetPerformanceMode(info, (OH_AI_PerformanceMode)options->performance);
    if (options->priority) OH_AI_DeviceInfoSetPriority(info, (OH_AI_Priority)options->priority);
    return info;
}
#else
int list_devices(void) {
    puts("nnrt devices: not known (MindSpore Lite can list them from API level 10 on)");
    return -1;
}

/* API 9 takes the first device there is; a name or a level cannot be given. */
static OH_AI_DeviceInfoHandle nnrt_device(const Options *options) {
    if (options->device[4] == ':' || options->performance || options->priority) return NULL;
    return OH_AI_DeviceInfoCreate(OH_AI_DEVICETYPE_NNRT);
}
#endif

/* The device that was asked for, and behind NNRt the CPU for operators that it lacks. */
static int add_devices(OH_AI_ContextHandle context, const Options *options) {
    if (strcmp(options->device, "cpu") != 0) {
        int known = list_devices();
        OH_AI_DeviceInfoHandle nnrt = known == 0 ? NULL : nnrt_device(options);
        if (!nnrt) {
            printf("device %s: not available%s\n", options->device,
                   known < 0 ? " (API level 9 knows no names, performance modes or priorities)" : "");
            return EXIT_NO_DEVICE;
        }
        OH_AI_ContextAddDeviceInfo(context, nnrt);
    }
    OH_AI_DeviceInfoHandle cpu = OH_AI_DeviceInfoCreate(OH_AI_DEVICETYPE_CPU);
    if (!cpu) return EXIT_NO_MEMORY;
    if (options->half) OH_AI_DeviceInfoSetEnableFP16(cpu, true);
    OH_AI_ContextAddDeviceInfo(context, cpu); /* From here on the context owns it. */
    return 0;
}

static int parse_shape(const char *text, OH_AI_ShapeInfo *info) {
    for (info->shape_num = 0; info->shape_num < 32;) {
        char *end;
        long long size = strtoll(text, &end, 10);
        if (end == text || size < 1 || size > INT32_MAX) break;
        info->shape[info->shape_num++] = size;
        if (!*end) return 0;
        if (*end != 'x' && *end != ',') break;
        text = end + 1;
    }
    fprintf(stderr, "mslite: not a shape such as 1x224x224x3: %s\n", text);
    return EXIT_USAGE;
}

static bool means(const Assignment *assignment, size_t order, OH_AI_TensorHandle tensor, size_t index) {
    if (!assignment->which) return order == index;
    const char *name = OH_AI_TensorGetName(tensor);
    if (name && strlen(name) == assignment->which_bytes && memcmp(name, assignment->which, assignment->which_bytes) == 0)
        return true;
    char *end;
    unsigned long number = strtoul(assignment->which, &end, 10);
    return end == assignment->which + assignment->which_bytes && number == index;
}

/* What is given for an input; assignments without a name count in their own order. */
static const char *given_for(const Assignment *list, size_t count, OH_AI_TensorHandle tensor, size_t index, bool *used) {
    size_t order = 0;
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (means(&list[i], order, tensor, index)) {
            found = list[i].value;
            used[i] = true;
        }
        order += !list[i].which;
    }
    return found;
}

static int check_used(const Assignment *list, size_t count, const bool *used, const char *what, size_t inputs) {
    for (size_t i = 0; i < count; i++)
        if (!used[i]) {
            fprintf(stderr, "mslite: %s %s fits none of the model's %zu inputs\n", what, list[i].value, inputs);
            return EXIT_USAGE;
        }
    return 0;
}

static int resize_inputs(Session *session, const Options *options) {
    if (!options->shape_count) return 0;
    bool used[MAX_ASSIGNMENTS] = {false};
    size_t count = session->inputs.handle_num;
    OH_AI_ShapeInfo *infos = calloc(count + 1, sizeof *infos);
    if (!infos) return EXIT_NO_MEMORY;
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) {
        OH_AI_TensorHandle tensor = session->inputs.handle_list[i];
        const char *text = given_for(options->shapes, options->shape_count, tensor, i, used);
        const int64_t *shape = OH_AI_TensorGetShape(tensor, &infos[i].shape_num);
        if (text)
            status = parse_shape(text, &infos[i]);
        else
            memcpy(infos[i].shape, shape, infos[i].shape_num * sizeof *shape);
    }
    if (!status) status = check_used(options->shapes, options->shape_count, used, "--shape", count);
    if (!status) {
        OH_AI_Status result = OH_AI_ModelResize(session->model, session->inputs, infos, count);
        if (result != OH_AI_STATUS_SUCCESS) status = engine_failed("OH_AI_ModelResize", result);
    }
    free(infos);
    return status;
}

static int fill_inputs(Session *session, const Options *options) {
    bool used[MAX_ASSIGNMENTS] = {false};
    for (size_t i = 0; i < session->inputs.handle_num; i++) {
        OH_AI_TensorHandle tensor = session->inputs.handle_list[i];
        const char *path = given_for(options->inputs, options->input_count, tensor, i, used);
        char text[DESCRIPTION_BYTES];
        describe_tensor(tensor, text);
        if (path)
            printf("input %zu: %s, from %s\n", i, text, path);
        else
            printf("input %zu: %s, from seed %" PRIu64 "\n", i, text, options->seed + i);
        if (OH_AI_TensorGetDataSize(tensor) == 0) {
            fprintf(stderr, "mslite: input %zu has open dimensions; give them with --shape\n", i);
            return EXIT_USAGE;
        }
        if (!(path ? fill_from_file(tensor, path) : fill_from_seed(tensor, options->seed + i))) return EXIT_INPUT;
    }
    return check_used(options->inputs, options->input_count, used, "--input", session->inputs.handle_num);
}

static int build_model(Session *session, const Options *options, OH_AI_ContextHandle context) {
    double start = now_ms();
    OH_AI_Status status = OH_AI_ModelBuildFromFile(session->model, options->model, OH_AI_MODELTYPE_MINDIR, context);
    session->load_ms = now_ms() - start;
    if (status != OH_AI_STATUS_SUCCESS) return engine_failed("OH_AI_ModelBuildFromFile", status);
    session->inputs = OH_AI_ModelGetInputs(session->model);
    if (!session->inputs.handle_list) return engine_failed("OH_AI_ModelGetInputs", OH_AI_STATUS_LITE_ERROR);
    return 0;
}

int open_session(Session *session, const Options *options) {
    memset(session, 0, sizeof *session);
    OH_AI_ContextHandle context = OH_AI_ContextCreate();
    if (!context) return EXIT_NO_MEMORY;
    OH_AI_ContextSetThreadNum(context, (int32_t)options->threads);
    OH_AI_ContextSetThreadAffinityMode(context, (int)options->affinity);
    int status = add_devices(context, options);
    if (!status && !(session->model = OH_AI_ModelCreate())) status = EXIT_NO_MEMORY;
    if (status) {
        OH_AI_ContextDestroy(&context); /* No build was tried, so it is still ours. */
        return status;
    }
    status = build_model(session, options, context);
    if (status) return status;
    printf("load: %.3f ms\n", session->load_ms);
    status = resize_inputs(session, options);
    return status ? status : fill_inputs(session, options);
}

int run_session(Session *session, double *milliseconds) {
    double start = now_ms();
    OH_AI_Status status = OH_AI_ModelPredict(session->model, session->inputs, &session->outputs, NULL, NULL);
    *milliseconds = now_ms() - start;
    return status == OH_AI_STATUS_SUCCESS ? 0 : engine_failed("OH_AI_ModelPredict", status);
}

/* The model owns the context and all tensors: destroying one of them as well would free it twice. */
void close_session(Session *session) {
    if (session->model) OH_AI_ModelDestroy(&session->model);
}
