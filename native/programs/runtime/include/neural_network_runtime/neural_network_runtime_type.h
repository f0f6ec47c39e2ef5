/* Types of the NNRt C API: our own declarations of its ABI. They are C++, as the SDK's own header is.
 *
 * Of the parameters of operations only those are named that the reference runtime and our programs use. */
#ifndef OHFORGE_NEURAL_NETWORK_RUNTIME_TYPE_H
#define OHFORGE_NEURAL_NETWORK_RUNTIME_TYPE_H

#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#error "The NNRt headers are C++"
#endif

/* API level whose functions are declared; the level of the SDK that a program is meant for. */
#ifndef OHFORGE_API_LEVEL
#define OHFORGE_API_LEVEL 12
#endif

#define NNRT_API __attribute__((visibility("default")))

extern "C" {

typedef struct OH_NNModel OH_NNModel;
typedef struct OH_NNCompilation OH_NNCompilation;
typedef struct OH_NNExecutor OH_NNExecutor;
typedef struct NN_QuantParam NN_QuantParam;
typedef struct NN_TensorDesc NN_TensorDesc;
typedef struct NN_Tensor NN_Tensor;

typedef enum {
    OH_NN_PERFORMANCE_NONE = 0,
    OH_NN_PERFORMANCE_LOW = 1,
    OH_NN_PERFORMANCE_MEDIUM = 2,
    OH_NN_PERFORMANCE_HIGH = 3,
    OH_NN_PERFORMANCE_EXTREME = 4
} OH_NN_PerformanceMode;

typedef enum {
    OH_NN_PRIORITY_NONE = 0,
    OH_NN_PRIORITY_LOW = 1,
    OH_NN_PRIORITY_MEDIUM = 2,
    OH_NN_PRIORITY_HIGH = 3
} OH_NN_Priority;

typedef enum {
    OH_NN_SUCCESS = 0,
    OH_NN_FAILED = 1,
    OH_NN_INVALID_PARAMETER = 2,
    OH_NN_MEMORY_ERROR = 3,
    OH_NN_OPERATION_FORBIDDEN = 4,
    OH_NN_NULL_PTR = 5,
    OH_NN_INVALID_FILE = 6,
    OH_NN_UNAVALIDABLE_DEVICE = 7, /* spelled so; deprecated from API level 11 on */
    OH_NN_INVALID_PATH = 8,
    OH_NN_TIMEOUT = 9, /* this and the following: from API level 11 on */
    OH_NN_UNSUPPORTED = 10,
    OH_NN_CONNECTION_EXCEPTION = 11,
    OH_NN_SAVE_CACHE_EXCEPTION = 12,
    OH_NN_DYNAMIC_SHAPE = 13,
    OH_NN_UNAVAILABLE_DEVICE = 14
} OH_NN_ReturnCode;

typedef enum : int8_t { OH_NN_FUSED_NONE = 0, OH_NN_FUSED_RELU = 1, OH_NN_FUSED_RELU6 = 2 } OH_NN_FuseType;

typedef enum { OH_NN_FORMAT_NONE = 0, OH_NN_FORMAT_NCHW = 1, OH_NN_FORMAT_NHWC = 2, OH_NN_FORMAT_ND = 3 } OH_NN_Format;

typedef enum {
    OH_NN_OTHERS = 0,
    OH_NN_CPU = 1,
    OH_NN_GPU = 2,
    OH_NN_ACCELERATOR = 3
} OH_NN_DeviceType;

typedef enum {
    OH_NN_UNKNOWN = 0,
    OH_NN_BOOL = 1,
    OH_NN_INT8 = 2,
    OH_NN_INT16 = 3,
    OH_NN_INT32 = 4,
    OH_NN_INT64 = 5,
    OH_NN_UINT8 = 6,
    OH_NN_UINT16 = 7,
    OH_NN_UINT32 = 8,
    OH_NN_UINT64 = 9,
    OH_NN_FLOAT16 = 10,
    OH_NN_FLOAT32 = 11,
    OH_NN_FLOAT64 = 12
} OH_NN_DataType;

typedef enum {
    OH_NN_OPS_ADD = 1,
    OH_NN_OPS_AVG_POOL = 2,
    OH_NN_OPS_BATCH_NORM = 3,
    OH_NN_OPS_BIAS_ADD = 5,
    OH_NN_OPS_CONCAT = 7,
    OH_NN_OPS_CONV2D = 8,
    OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE = 10,
    OH_NN_OPS_DIV = 11,
    OH_NN_OPS_FULL_CONNECTION = 15,
    OH_NN_OPS_MATMUL = 19,
    OH_NN_OPS_MAXIMUM = 20,
    OH_NN_OPS_MAX_POOL = 21,
    OH_NN_OPS_MUL = 22,
    OH_NN_OPS_PAD = 24,
    OH_NN_OPS_SCALE = 26,
    OH_NN_OPS_SIGMOID = 28,
    OH_NN_OPS_SOFTMAX = 30,
    OH_NN_OPS_SUB = 38,
    OH_NN_OPS_TANH = 39,
    OH_NN_OPS_TRANSPOSE = 41,
    OH_NN_OPS_REDUCE_MEAN = 42,
    OH_NN_OPS_RESHAPE = 45,
    OH_NN_OPS_RELU = 47,
    OH_NN_OPS_RELU6 = 48
} OH_NN_OperationType;

typedef enum {
    OH_NN_TENSOR = 0,
    OH_NN_ADD_ACTIVATIONTYPE = 1,
    OH_NN_AVG_POOL_KERNEL_SIZE = 2,
    OH_NN_AVG_POOL_STRIDE = 3,
    OH_NN_AVG_POOL_PAD_MODE = 4,
    OH_NN_AVG_POOL_PAD = 5,
    OH_NN_AVG_POOL_ACTIVATION_TYPE = 6,
    OH_NN_BATCH_NORM_EPSILON = 7,
    OH_NN_CONCAT_AXIS = 10,
    OH_NN_CONV2D_STRIDES = 11,
    OH_NN_CONV2D_PAD = 12,
    OH_NN_CONV2D_DILATION = 13,
    OH_NN_CONV2D_PAD_MODE = 14,
    OH_NN_CONV2D_ACTIVATION_TYPE = 15,
    OH_NN_CONV2D_GROUP = 16,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES = 24,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD = 25,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION = 26,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD_MODE = 27,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE = 28,
    OH_NN_DIV_ACTIVATIONTYPE = 29,
    OH_NN_FULL_CONNECTION_AXIS = 31,
    OH_NN_FULL_CONNECTION_ACTIVATIONTYPE = 32,
    OH_NN_MATMUL_TRANSPOSE_A = 33,
    OH_NN_MATMUL_TRANSPOSE_B = 34,
    OH_NN_MATMUL_ACTIVATION_TYPE = 35,
    OH_NN_MAX_POOL_KERNEL_SIZE = 36,
    OH_NN_MAX_POOL_STRIDE = 37,
    OH_NN_MAX_POOL_PAD_MODE = 38,
    OH_NN_MAX_POOL_PAD = 39,
    OH_NN_MAX_POOL_ACTIVATION_TYPE = 40,
    OH_NN_MUL_ACTIVATION_TYPE = 41,
    OH_NN_PAD_CONSTANT_VALUE = 43,
    OH_NN_SCALE_ACTIVATIONTYPE = 44,
    OH_NN_SCALE_AXIS = 45,
    OH_NN_SOFTMAX_AXIS = 46,
    OH_NN_SUB_ACTIVATIONTYPE = 59,
    OH_NN_REDUCE_MEAN_KEEP_DIMS = 60,
    OH_NN_AVG_POOL_ROUND_MODE = 109, /* this and the following: from API level 12 on */
    OH_NN_AVG_POOL_GLOBAL = 110,
    OH_NN_FULL_CONNECTION_HAS_BIAS = 111,
    OH_NN_FULL_CONNECTION_USE_AXIS = 112,
    OH_NN_MAX_POOL_ROUND_MODE = 114,
    OH_NN_MAX_POOL_GLOBAL = 115,
    OH_NN_PAD_PADDING_MODE = 116,
    OH_NN_REDUCE_MEAN_REDUCE_TO_END = 117,
    OH_NN_REDUCE_MEAN_COEFF = 118
} OH_NN_TensorType;

typedef struct OH_NN_UInt32Array {
    uint32_t *data;
    uint32_t size; /* elements, not bytes */
} OH_NN_UInt32Array;

typedef struct OH_NN_QuantParam {
    uint32_t quantCount;
    const uint32_t *numBits;
    const double *scale;
    const int32_t *zeroPoint;
} OH_NN_QuantParam;

typedef struct OH_NN_Tensor {
    OH_NN_DataType dataType;
    uint32_t dimensionCount;
    const int32_t *dimensions;
    const OH_NN_QuantParam *quantParam;
    OH_NN_TensorType type;
} OH_NN_Tensor;

typedef struct OH_NN_Memory {
    void *const data;
    const size_t length;
} OH_NN_Memory;

typedef void (*NN_OnRunDone)(void *userData, OH_NN_ReturnCode errCode, void *outputTensor[], int32_t outputCount);
typedef void (*NN_OnServiceDied)(void *userData);
}

#endif
