/* Tensors of the MindSpore Lite C API. */
#ifndef OHFORGE_MINDSPORE_TENSOR_H
#define OHFORGE_MINDSPORE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "mindspore/data_type.h"
#include "mindspore/format.h"
#include "mindspore/status.h"
#include "mindspore/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *OH_AI_TensorHandle;

OH_AI_API OH_AI_TensorHandle OH_AI_TensorCreate(const char *name, OH_AI_DataType type, const int64_t *shape,
                                                size_t shape_num, const void *data, size_t data_len);
OH_AI_API void OH_AI_TensorDestroy(OH_AI_TensorHandle *tensor);
OH_AI_API OH_AI_TensorHandle OH_AI_TensorClone(OH_AI_TensorHandle tensor);
OH_AI_API void OH_AI_TensorSetName(OH_AI_TensorHandle tensor, const char *name);
OH_AI_API const char *OH_AI_TensorGetName(const OH_AI_TensorHandle tensor);
OH_AI_API void OH_AI_TensorSetDataType(OH_AI_TensorHandle tensor, OH_AI_DataType type);
OH_AI_API OH_AI_DataType OH_AI_TensorGetDataType(const OH_AI_TensorHandle tensor);
OH_AI_API void OH_AI_TensorSetShape(OH_AI_TensorHandle tensor, const int64_t *shape, size_t shape_num);
OH_AI_API const int64_t *OH_AI_TensorGetShape(const OH_AI_TensorHandle tensor, size_t *shape_num);
OH_AI_API void OH_AI_TensorSetFormat(OH_AI_TensorHandle tensor, OH_AI_Format format);
OH_AI_API OH_AI_Format OH_AI_TensorGetFormat(const OH_AI_TensorHandle tensor);
OH_AI_API void OH_AI_TensorSetData(OH_AI_TensorHandle tensor, void *data);
OH_AI_API const void *OH_AI_TensorGetData(const OH_AI_TensorHandle tensor);
OH_AI_API void *OH_AI_TensorGetMutableData(const OH_AI_TensorHandle tensor);
OH_AI_API int64_t OH_AI_TensorGetElementNum(const OH_AI_TensorHandle tensor);
OH_AI_API size_t OH_AI_TensorGetDataSize(const OH_AI_TensorHandle tensor);

#if OHFORGE_API_LEVEL >= 10
OH_AI_API OH_AI_Status OH_AI_TensorSetUserData(OH_AI_TensorHandle tensor, void *data, size_t data_size);
#endif

#ifdef __cplusplus
}
#endif
#endif
