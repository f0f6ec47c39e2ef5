#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

size_t type_bytes(OH_AI_DataType type) {
    switch (type) {
        case OH_AI_DATATYPE_NUMBERTYPE_BOOL:
        case OH_AI_DATATYPE_NUMBERTYPE_INT8:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT8:
            return 1;
        case OH_AI_DATATYPE_NUMBERTYPE_INT16:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT16:
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT16:
            return 2;
        case OH_AI_DATATYPE_NUMBERTYPE_INT32:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT32:
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT32:
            return 4;
        case OH_AI_DATATYPE_NUMBERTYPE_INT64:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT64:
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT64:
            return 8;
        default:
            return 0;
    }
}

int64_t tensor_count(const Tensor *tensor) {
    int64_t count = 1;
    for (size_t axis = 0; axis < tensor->rank; axis++) {
        int64_t size = tensor->shape[axis];
        if (size < 0 || (size > 0 && count > INT64_MAX / 8 / size)) return -1;
        count *= size;
    }
    return count;
}

size_t tensor_bytes(const Tensor *tensor) {
    int64_t count = tensor_count(tensor);
    size_t item = type_bytes(tensor->type);
    if (count <= 0 || item == 0 || (uint64_t)count > SIZE_MAX / item) return 0;
    return (size_t)count * item;
}

bool tensor_init(Tensor *tensor, const char *name, size_t name_bytes, OH_AI_DataType type) {
    memset(tensor, 0, sizeof *tensor);
    tensor->type = type;
    tensor->format = OH_AI_FORMAT_NHWC;
    tensor->last_use = -1;
    tensor->name = malloc(name_bytes + 1);
    if (!tensor->name) return false;
    if (name_bytes) memcpy(tensor->name, name, name_bytes);
    tensor->name[name_bytes] = '\0';
    return true;
}

void tensor_drop_data(Tensor *tensor) {
    if (tensor->owner == DATA_OWNED) free(tensor->data);
    tensor->data = NULL;
    tensor->capacity = 0;
    tensor->owner = DATA_NONE;
}

bool tensor_reserve(Tensor *tensor) {
    size_t bytes = tensor_bytes(tensor);
    if (bytes == 0 || bytes > OHFORGE_MAX_TENSOR_BYTES) return false;
    if (tensor->data && tensor->capacity >= bytes) return true;
    tensor_drop_data(tensor);
    tensor->data = calloc(1, bytes);
    if (!tensor->data) return false;
    tensor->capacity = bytes;
    tensor->owner = DATA_OWNED;
    return true;
}

void tensor_release(Tensor *tensor) {
    tensor_drop_data(tensor);
    free(tensor->name);
    tensor->name = NULL;
}

OH_AI_TensorHandle OH_AI_TensorCreate(const char *name, OH_AI_DataType type, const int64_t *shape, size_t shape_num,
                                      const void *data, size_t data_len) {
    if (!name || (!shape && shape_num) || shape_num > OH_AI_MAX_SHAPE_NUM) return NULL;
    Tensor *tensor = malloc(sizeof *tensor);
    if (!tensor) return NULL;
    if (!tensor_init(tensor, name, strlen(name), type)) {
        free(tensor);
        return NULL;
    }
    tensor->rank = shape_num;
    if (shape_num) memcpy(tensor->shape, shape, shape_num * sizeof *shape);
    if (data && data_len) {
        if (data_len != tensor_bytes(tensor) || !tensor_reserve(tensor)) {
            tensor_release(tensor);
            free(tensor);
            return NULL;
        }
        memcpy(tensor->data, data, data_len);
    }
    return tensor;
}

void OH_AI_TensorDestroy(OH_AI_TensorHandle *handle) {
    if (!handle || !*handle) return;
    Tensor *tensor = *handle;
    /* The real engine would free a tensor of a model a second time; ours leaves it alone. */
    if (!tensor->of_model) {
        tensor_release(tensor);
        free(tensor);
    }
    *handle = NULL;
}

OH_AI_TensorHandle OH_AI_TensorClone(OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    if (!tensor) return NULL;
    Tensor *clone = OH_AI_TensorCreate(tensor->name, tensor->type, tensor->shape, tensor->rank, tensor->data,
                                       tensor->data ? tensor_bytes(tensor) : 0);
    if (clone) clone->format = tensor->format;
    return clone;
}

void OH_AI_TensorSetName(OH_AI_TensorHandle handle, const char *name) {
    Tensor *tensor = handle;
    if (!tensor || !name) return;
    char *copy = malloc(strlen(name) + 1);
    if (!copy) return;
    strcpy(copy, name);
    free(tensor->name);
    tensor->name = copy;
}

const char *OH_AI_TensorGetName(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    return tensor ? tensor->name : NULL;
}

void OH_AI_TensorSetDataType(OH_AI_TensorHandle handle, OH_AI_DataType type) {
    Tensor *tensor = handle;
    if (tensor && !tensor->of_model) tensor->type = type;
}

OH_AI_DataType OH_AI_TensorGetDataType(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    return tensor ? tensor->type : OH_AI_DATATYPE_UNKNOWN;
}

/* A tensor of a model gets another shape by OH_AI_ModelResize only: all others depend on it. */
void OH_AI_TensorSetShape(OH_AI_TensorHandle handle, const int64_t *shape, size_t shape_num) {
    Tensor *tensor = handle;
    if (!tensor || tensor->of_model || (!shape && shape_num) || shape_num > OH_AI_MAX_SHAPE_NUM) return;
    tensor->rank = shape_num;
    if (shape_num) memcpy(tensor->shape, shape, shape_num * sizeof *shape);
}

const int64_t *OH_AI_TensorGetShape(const OH_AI_TensorHandle handle, size_t *shape_num) {
    const Tensor *tensor = handle;
    if (!shape_num) return NULL;
    *shape_num = tensor ? tensor->rank : 0;
    return tensor ? tensor->shape : NULL;
}

void OH_AI_TensorSetFormat(OH_AI_TensorHandle handle, OH_AI_Format format) {
    Tensor *tensor = handle;
    if (tensor) tensor->format = format;
}

OH_AI_Format OH_AI_TensorGetFormat(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    return tensor ? tensor->format : OH_AI_FORMAT_NHWC;
}

/* Hands the buffer over: the tensor frees it. The size is taken on trust, as in the real engine. */
void OH_AI_TensorSetData(OH_AI_TensorHandle handle, void *data) {
    Tensor *tensor = handle;
    if (!tensor || data == tensor->data) return;
    tensor_drop_data(tensor);
    tensor->data = data;
    tensor->capacity = data ? tensor_bytes(tensor) : 0;
    tensor->owner = data ? DATA_OWNED : DATA_NONE;
}

#if OHFORGE_API_LEVEL >= 10
OH_AI_Status OH_AI_TensorSetUserData(OH_AI_TensorHandle handle, void *data, size_t data_size) {
    Tensor *tensor = handle;
    if (!tensor) return OH_AI_STATUS_LITE_NULLPTR;
    if (!data || data_size != tensor_bytes(tensor)) return OH_AI_STATUS_LITE_PARAM_INVALID;
    if (data == tensor->data) return OH_AI_STATUS_SUCCESS;
    tensor_drop_data(tensor);
    tensor->data = data;
    tensor->capacity = data_size;
    tensor->owner = DATA_BORROWED;
    return OH_AI_STATUS_SUCCESS;
}
#endif

const void *OH_AI_TensorGetData(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    return tensor ? tensor->data : NULL;
}

void *OH_AI_TensorGetMutableData(const OH_AI_TensorHandle handle) {
    Tensor *tensor = handle;
    if (!tensor) return NULL;
    if (tensor->owner == DATA_BORROWED && tensor->data && tensor->capacity >= tensor_bytes(tensor)) return tensor->data;
    return tensor_reserve(tensor) ? tensor->data : NULL;
}

int64_t OH_AI_TensorGetElementNum(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    int64_t count = tensor ? tensor_count(tensor) : 0;
    return count < 0 ? 0 : count;
}

size_t OH_AI_TensorGetDataSize(const OH_AI_TensorHandle handle) {
    const Tensor *tensor = handle;
    return tensor ? tensor_bytes(tensor) : 0;
}
