/* The arithmetic that both reference runtimes share: float32, NHWC, written for clearness first and speed second.
 *
 * Sizes were checked by the caller: every array has exactly the cells that its shape says, and no product of
 * dimensions overflows. Nothing here allocates, except scratch memory through `workers_reserve`.
 */
#ifndef OHFORGE_KERNELS_H
#define OHFORGE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_RANK = 8 };

/* Numbers as in .ms files. */
typedef enum ActivationKind {
    ACTIVATE_NONE = 0,
    ACTIVATE_RELU = 1,
    ACTIVATE_SIGMOID = 2,
    ACTIVATE_RELU6 = 3,
    ACTIVATE_ELU = 4,
    ACTIVATE_LEAKY_RELU = 5,
    ACTIVATE_TANH = 10,
    ACTIVATE_HSWISH = 12,
    ACTIVATE_HSIGMOID = 13,
    ACTIVATE_SWISH = 18,
    ACTIVATE_GELU = 19
} ActivationKind;

typedef struct Activation {
    ActivationKind kind;
    float alpha;      /* Slope of leaky relu, factor of elu. */
    bool approximate; /* gelu by tanh. */
} Activation;

bool activation_known(int kind);
void activate(const float *in, float *out, size_t count, Activation activation);

/* --- convolution and matrix product (convolution.c, matmul.c) --- */

typedef struct ConvShape {
    size_t batch, in_height, in_width, in_channels, out_height, out_width, out_channels;
    size_t kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width;
    size_t pad_top, pad_left;
    size_t group;
} ConvShape;

/* Cells before and after so that there are ceil(size / stride) results; the odd cell goes after. */
void same_padding(size_t size, size_t kernel, size_t stride, size_t dilation, size_t *before, size_t *after);

/* Floats that the packed weights need. Weights come as [out, kernel_height, kernel_width, in / group]. */
size_t conv_packed_floats(const ConvShape *shape);
void conv_pack(const ConvShape *shape, const float *weight, float *packed);
/* `bias` may be NULL. False when there is no memory for scratch. */
bool conv_run(const ConvShape *shape, const float *in, const float *packed, const float *bias, Activation activation,
              float *out, Workers *workers);

/* Weights [in, kernel_height, kernel_width, out / group]; in_* is the smaller side. Clears `out` first. */
void conv_transpose_run(const ConvShape *shape, const float *in, const float *weight, const float *bias,
                        Activation activation, float *out);

/* `a` is [rows, depth] with `row_stride` floats from row to row; `packed` comes from matrix_pack of [depth, columns]. */
size_t matrix_packed_floats(size_t depth, size_t columns);
void matrix_pack(const float *b, size_t depth, size_t columns, size_t depth_stride, size_t column_stride,
                 float *packed);
bool matrix_run(const float *a, size_t rows, size_t row_stride, size_t depth, const float *packed, size_t columns,
                const float *bias, Activation activation, float *out, Workers *workers);

/* --- pooling (pooling.c) --- */

typedef struct PoolShape {
    size_t batch, in_height, in_width, channels, out_height, out_width;
    size_t kernel_height, kernel_width, stride_height, stride_width, pad_top, pad_left;
} PoolShape;

/* Cells of the padding are not counted. */
void pool_run(const PoolShape *shape, bool maximum, const float *in, float *out);

/* --- cell by cell (elementwise.c) --- */

typedef enum BinaryKind {
    BINARY_ADD,
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_POW,
    BINARY_SQUARED_DIFFERENCE
} BinaryKind;

typedef enum UnaryKind {
    UNARY_ABS,
    UNARY_CEIL,
    UNARY_COS,
    UNARY_EXP,
    UNARY_FLOOR,
    UNARY_LOG,
    UNARY_NEG,
    UNARY_ROUND,
    UNARY_RSQRT,
    UNARY_SIN,
    UNARY_SQRT,
    UNARY_SQUARE
} UnaryKind;

/* How two arrays are laid over one of `rank` dimensions: strides are 0 where a dimension is stretched. */
typedef struct Broadcast {
    size_t rank;
    size_t size[MAX_RANK], stride_a[MAX_RANK], stride_b[MAX_RANK];
} Broadcast;

/* False when the shapes do not fit. `size` of the result are the dimensions of the outcome. */
bool broadcast_plan(const int64_t *a, size_t rank_a, const int64_t *b, size_t rank_b, Broadcast *plan);
void binary_float(BinaryKind kind, const Broadcast *plan, const float *a, const float *b, float *out);
/* Division by zero gives 0; overflow wraps. */
void binary_int(BinaryKind kind, const Broadcast *plan, const int32_t *a, const int32_t *b, int32_t *out);
void unary_float(UnaryKind kind, const float *in, float *out, size_t count);

/* out = in * factor + offset, the middle of [outer, middle, inner] having its own values; either may be NULL. */
void scale_run(const float *in, const float *factor, const float *offset, size_t outer, size_t middle, size_t inner,
               float *out);
void prelu_run(const float *in, const float *slope, size_t outer, size_t channels, bool shared, float *out);
void half_to_float(const uint16_t *in, float *out, size_t count);
void float_to_half(const float *in, uint16_t *out, size_t count);

/* --- many cells to one (reduction.c) --- */

/* Numbers as in .ms files; `all` is for bool and not here. */
typedef enum ReduceKind {
    REDUCE_MEAN = 0,
    REDUCE_MAX = 1,
    REDUCE_MIN = 2,
    REDUCE_PROD = 3,
    REDUCE_SUM = 4,
    REDUCE_SUM_SQUARE = 5,
    REDUCE_ABS_SUM = 6,
    REDUCE_L2 = 8
} ReduceKind;

/* Reduces the axes that are marked; `out` has the cells of the others in their order. */
void reduce_run(ReduceKind kind, const float *in, const size_t *size, size_t rank, const bool *marked,
                float coefficient, float *out);
/* Softmax over the middle of [outer, middle, inner]. */
void softmax_run(const float *in, size_t outer, size_t middle, size_t inner, bool logarithm, float *out);
void layer_norm_run(const float *in, const float *gamma, const float *beta, size_t outer, size_t inner, float epsilon,
                    float *out);

/* --- moving cells about (rearrange.c); `item` is the bytes of one cell --- */

void transpose_run(const void *in, const size_t *size, const size_t *order, size_t rank, size_t item, void *out);
/* Cells begin, begin + step, … of every dimension; `out_size` says how many. Steps may be negative. */
void slice_run(const void *in, const size_t *size, const int64_t *begin, const int64_t *step, const size_t *out_size,
               size_t rank, size_t item, void *out);
/* Fills `out` with `value` (one item), then lays `in` into it at `before`. */
void pad_run(const void *in, const size_t *size, const size_t *before, const size_t *out_size, size_t rank,
             const void *value, size_t item, void *out);

typedef enum ResizeCoordinates { RESIZE_ASYMMETRIC = 0, RESIZE_ALIGN_CORNERS = 1, RESIZE_HALF_PIXEL = 2 } ResizeCoordinates;

void resize_run(const float *in, size_t batch, size_t in_height, size_t in_width, size_t channels, size_t out_height,
                size_t out_width, bool nearest, ResizeCoordinates coordinates, float *out);

#ifdef __cplusplus
}
#endif
#endif
