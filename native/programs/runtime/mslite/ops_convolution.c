/* Convolution, pooling and matrix product as operators. */
#include <stdlib.h>

#include "graph.h"

static Problem read_pads(FbTable attributes, unsigned slot, int64_t pads[4]) {
    FbVector list = fb_vector(attributes, slot, 8);
    if (list.items && list.count != 0 && list.count != 4) return "the padding is not four numbers";
    for (size_t i = 0; i < 4; i++) {
        pads[i] = list.count == 4 ? fb_i64_item(list, i) : 0;
        if (pads[i] < 0 || pads[i] > 1 << 20) return "the padding is out of range";
    }
    return NULL;
}

static Problem decode_conv(Node *node, FbTable t) {
    Attributes *a = &node->attributes;
    Problem problem = read_pair(t, 2, a->stride, 1);
    if (!problem) problem = read_pair(t, 3, a->dilation, 1);
    if (!problem) problem = read_pads(t, 5, a->pads);
    if (problem) return problem;
    a->pad_mode = fb_i8(t, 4, PAD_EXPLICIT);
    a->group = fb_i64(t, 7, 0);
    if (a->group < 1) return "the number of groups is missing";
    return read_fused_activation(node, fb_i8(t, 10, 0));
}

static Problem decode_conv_transpose(Node *node, FbTable t) {
    Attributes *a = &node->attributes;
    Problem problem = read_pair(t, 2, a->stride, 1);
    if (!problem) problem = read_pair(t, 3, a->dilation, 1);
    if (!problem) problem = read_pads(t, 6, a->pads);
    if (!problem && fb_has(t, 12)) problem = read_pair(t, 12, a->out_pads, 0);
    if (problem) return problem;
    if (fb_i8(t, 4, PAD_EXPLICIT) == PAD_SAME) return "the reference runtime takes explicit padding only";
    a->group = fb_i64(t, 8, 1);
    if (a->group < 1) return "the number of groups is wrong";
    return read_fused_activation(node, fb_i8(t, 11, 0));
}

/* Cells before and after, and from them the number of results along one dimension. */
static Problem window_count(const Attributes *a, int direction, size_t size, size_t kernel, size_t *before,
                            size_t *count) {
    size_t stride = (size_t)a->stride[direction], dilation = (size_t)a->dilation[direction], after;
    if ((uint64_t)(kernel - 1) * dilation > 1 << 28) return "the kernel is too large";
    if (a->pad_mode == PAD_SAME) {
        same_padding(size, kernel, stride, dilation, before, &after);
    } else {
        *before = (size_t)a->pads[2 * direction];
        after = (size_t)a->pads[2 * direction + 1];
    }
    size_t whole = size + *before + after, covered = (kernel - 1) * dilation + 1;
    if (whole < covered) return "the kernel is larger than the padded input";
    size_t room = whole - covered;
    *count = (a->ceil ? (room + stride - 1) / stride : room / stride) + 1;
    return NULL;
}

static Problem check_conv_inputs(const Node *node) {
    const Tensor *x = node->inputs[0], *w = node->inputs[1];
    if (x->rank != 4 || w->rank != 4) return "input and weights must have four dimensions";
    for (size_t axis = 0; axis < 4; axis++)
        if (x->shape[axis] > 1 << 28 || w->shape[axis] > 1 << 20 || w->shape[axis] < 1)
            return "a dimension is out of range";
    return require_float(node);
}

static Problem check_bias(const Node *node, int64_t outputs) {
    if (node->input_count < 3) return NULL;
    return tensor_count(node->inputs[2]) == outputs ? NULL : "the bias does not have one value for each output";
}

static Problem conv_shape(const Node *node, ConvShape *s) {
    const Attributes *a = &node->attributes;
    const Tensor *x = node->inputs[0], *w = node->inputs[1];
    Problem problem = check_conv_inputs(node);
    if (problem) return problem;
    if (w->shape[3] * a->group != x->shape[3] || w->shape[0] % a->group != 0)
        return "weights, groups and input channels do not fit together";
    *s = (ConvShape){
        .batch = dimension(x, 0), .in_height = dimension(x, 1), .in_width = dimension(x, 2),
        .in_channels = dimension(x, 3), .out_channels = dimension(w, 0),
        .kernel_height = dimension(w, 1), .kernel_width = dimension(w, 2),
        .stride_height = (size_t)a->stride[0], .stride_width = (size_t)a->stride[1],
        .dilation_height = (size_t)a->dilation[0], .dilation_width = (size_t)a->dilation[1],
        .group = (size_t)a->group,
    };
    problem = window_count(a, 0, s->in_height, s->kernel_height, &s->pad_top, &s->out_height);
    if (!problem) problem = window_count(a, 1, s->in_width, s->kernel_width, &s->pad_left, &s->out_width);
    return problem ? problem : check_bias(node, w->shape[0]);
}

static Problem pack_conv(Node *node, const ConvShape *s) {
    size_t count = conv_packed_floats(s);
    if (count > OHFORGE_MAX_TENSOR_BYTES / sizeof(float)) return "the weights are too large";
    if (!node->packed) node->packed = malloc(count * sizeof(float));
    if (!node->packed) return "there is not enough memory for the weights";
    conv_pack(s, floats(node->inputs[1]), node->packed);
    return NULL;
}

static Problem infer_conv(Node *node) {
    ConvShape s;
    Problem problem = conv_shape(node, &s);
    if (problem) return problem;
    int64_t shape[4] = {(int64_t)s.batch, (int64_t)s.out_height, (int64_t)s.out_width, (int64_t)s.out_channels};
    problem = give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, shape, 4);
    if (!problem && node->inputs[1]->constant && !node->packed) problem = pack_conv(node, &s);
    return problem;
}

static Problem run_conv(Node *node, Workers *workers) {
    ConvShape s;
    Problem problem = conv_shape(node, &s);
    if (!problem && !node->inputs[1]->constant) {
        free(node->packed);
        node->packed = NULL;
        problem = pack_conv(node, &s);
    }
    if (problem) return problem;
    const float *bias = node->input_count > 2 ? floats(node->inputs[2]) : NULL;
    return conv_run(&s, floats(node->inputs[0]), node->packed, bias, node->attributes.activation,
                    node->outputs[0]->data, workers)
               ? NULL
               : "there is not enough memory to work in";
}

static Problem conv_transpose_shape(const Node *node, ConvShape *s) {
    const Attributes *a = &node->attributes;
    const Tensor *x = node->inputs[0], *w = node->inputs[1];
    Problem problem = check_conv_inputs(node);
    if (problem) return problem;
    if (w->shape[0] != x->shape[3] || w->shape[0] % a->group != 0)
        return "weights, groups and input channels do not fit together";
    bool depthwise = a->group == x->shape[3] && w->shape[3] == 1;
    if (a->group > 1 && !depthwise) return "MindSpore Lite takes one group, or one for each channel";
    if (depthwise && (a->dilation[0] != 1 || a->dilation[1] != 1))
        return "MindSpore Lite takes no dilation with one group for each channel";
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        int64_t full = (x->shape[1 + i] - 1) * a->stride[i] + (w->shape[1 + i] - 1) * a->dilation[i] + 1;
        size[i] = full + a->out_pads[i] - a->pads[2 * i] - a->pads[2 * i + 1];
        if (size[i] < 1 || size[i] > 1 << 28) return "the result would be empty or too large";
    }
    *s = (ConvShape){
        .batch = dimension(x, 0), .in_height = dimension(x, 1), .in_width = dimension(x, 2),
        .in_channels = dimension(x, 3), .out_height = (size_t)size[0], .out_width = (size_t)size[1],
        .out_channels = dimension(w, 3) * (size_t)a->group,
        .kernel_height = dimension(w, 1), .kernel_width = dimension(w, 2),
        .stride_height = (size_t)a->stride[0], .stride_width = (size_t)a->stride[1],
        .dilation_height = (size_t)a->dilation[0], .dilation_width = (size_t)a->dilation[1],
        .pad_top = (size_t)a->pads[0], .pad_left = (size_t)a->pads[2], .group = (size_t)a->group,
    };
    return check_bias(node, (int64_t)s->out_channels);
}

static Problem infer_conv_transpose(Node *node) {
    ConvShape s;
    Problem problem = conv_transpose_shape(node, &s);
    if (problem) return problem;
    int64_t shape[4] = {(int64_t)s.batch, (int64_t)s.out_height, (int64_t)s.out_width, (int64_t)s.out_channels};
    return give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, shape, 4);
}

static Problem run_conv_transpose(Node *node, Workers *workers) {
    (void)workers;
    ConvShape s;
    Problem problem = conv_transpose_shape(node, &s);
    if (problem) return problem;
    conv_transpose_run(&s, floats(node->inputs[0]), floats(node->inputs[1]),
                       node->input_count > 2 ? floats(node->inputs[2]) : NULL, node->attributes.activation,
                       node->outputs[0]->data);
    return NULL;
}

static Problem decode_pool(Node *node, FbTable t) {
    Attributes *a = &node->attributes;
    a->whole = fb_bool(t, 6, false);
    a->dilation[0] = a->dilation[1] = 1;
    if (!a->whole) {
        Problem problem = read_pair(t, 0, a->kernel, 1);
        if (!problem) problem = read_pair(t, 1, a->stride, 1);
        if (!problem) problem = read_pads(t, 2, a->pads);
        if (problem) return problem;
    } else if (!node->op->kind && read_pair(t, 1, a->stride, 1)) {
        return "MindSpore Lite wants a stride here even for the whole input";
    }
    a->pad_mode = fb_i8(t, 3, PAD_EXPLICIT);
    a->ceil = fb_i8(t, 4, 0) == 1;
    return read_fused_activation(node, fb_i8(t, 7, 0));
}

static Problem pool_shape(const Node *node, PoolShape *s) {
    const Attributes *a = &node->attributes;
    const Tensor *x = node->inputs[0];
    if (x->rank != 4) return "the input must have four dimensions";
    for (size_t axis = 0; axis < 4; axis++)
        if (x->shape[axis] > 1 << 28) return "a dimension is out of range";
    *s = (PoolShape){.batch = dimension(x, 0), .in_height = dimension(x, 1), .in_width = dimension(x, 2),
                     .channels = dimension(x, 3), .out_height = 1, .out_width = 1,
                     .kernel_height = dimension(x, 1), .kernel_width = dimension(x, 2),
                     .stride_height = 1, .stride_width = 1};
    if (a->whole) return require_float(node);
    s->kernel_height = (size_t)a->kernel[0], s->kernel_width = (size_t)a->kernel[1];
    s->stride_height = (size_t)a->stride[0], s->stride_width = (size_t)a->stride[1];
    Problem problem = window_count(a, 0, s->in_height, s->kernel_height, &s->pad_top, &s->out_height);
    if (!problem) problem = window_count(a, 1, s->in_width, s->kernel_width, &s->pad_left, &s->out_width);
    return problem ? problem : require_float(node);
}

static Problem infer_pool(Node *node) {
    PoolShape s;
    Problem problem = pool_shape(node, &s);
    if (problem) return problem;
    int64_t shape[4] = {(int64_t)s.batch, (int64_t)s.out_height, (int64_t)s.out_width, (int64_t)s.channels};
    return give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, shape, 4);
}

static Problem run_pool(Node *node, Workers *workers) {
    (void)workers;
    PoolShape s;
    Problem problem = pool_shape(node, &s);
    if (problem) return problem;
    float *out = node->outputs[0]->data;
    pool_run(&s, node->op->kind, floats(node->inputs[0]), out);
    activate(out, out, (size_t)tensor_count(node->outputs[0]), node->attributes.activation);
    return NULL;
}

typedef struct MatrixShape {
    size_t rows, depth, columns, rank; /* rank: number of leading dimensions of the result */
    Broadcast batch;
} MatrixShape;

static Problem decode_matmul(Node *node, FbTable t) {
    node->attributes.transpose_a = fb_bool(t, 0, false);
    node->attributes.transpose_b = fb_bool(t, 1, false);
    return read_fused_activation(node, fb_i8(t, 2, 0));
}

static Problem matmul_shape(const Node *node, MatrixShape *s) {
    const Attributes *at = &node->attributes;
    const Tensor *a = node->inputs[0], *b = node->inputs[1];
    if (a->rank < 2 || b->rank < 2) return "both factors must have two dimensions or more";
    if (!broadcast_plan(a->shape, a->rank - 2, b->shape, b->rank - 2, &s->batch))
        return "the leading dimensions of the factors do not fit together";
    size_t rows = a->rank - (at->transpose_a ? 1 : 2), depth_a = a->rank - (at->transpose_a ? 2 : 1);
    size_t depth_b = b->rank - (at->transpose_b ? 1 : 2), columns = b->rank - (at->transpose_b ? 2 : 1);
    s->rows = dimension(a, rows), s->depth = dimension(a, depth_a), s->columns = dimension(b, columns);
    if (dimension(b, depth_b) != s->depth) return "the inner dimensions of the factors differ";
    s->rank = s->batch.rank;
    Problem problem = check_bias(node, (int64_t)s->columns);
    return problem ? problem : require_float(node);
}

static Problem infer_matmul(Node *node) {
    MatrixShape s;
    Problem problem = matmul_shape(node, &s);
    if (problem) return problem;
    int64_t shape[MAX_RANK];
    for (size_t axis = 0; axis < s.rank; axis++) shape[axis] = (int64_t)s.batch.size[axis];
    shape[s.rank] = (int64_t)s.rows, shape[s.rank + 1] = (int64_t)s.columns;
    return give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, shape, s.rank + 2);
}

static size_t batches_of(const MatrixShape *s) {
    size_t count = 1;
    for (size_t axis = 0; axis < s->rank; axis++) count *= s->batch.size[axis];
    return count;
}

/* Which matrix of a factor belongs to a matrix of the result. */
static size_t matrix_number(const MatrixShape *s, const size_t *stride, size_t number) {
    size_t place = 0;
    for (size_t axis = s->rank; axis-- > 0; number /= s->batch.size[axis])
        place += number % s->batch.size[axis] * stride[axis];
    return place;
}

static Problem multiply_all(Node *node, const MatrixShape *s, float *packed, float *turned, Workers *workers) {
    const Attributes *at = &node->attributes;
    const float *bias = node->input_count > 2 ? floats(node->inputs[2]) : NULL;
    size_t last_b = SIZE_MAX;
    for (size_t number = 0; number < batches_of(s); number++) {
        const float *a = floats(node->inputs[0]) + matrix_number(s, s->batch.stride_a, number) * s->rows * s->depth;
        size_t which_b = matrix_number(s, s->batch.stride_b, number);
        const float *b = floats(node->inputs[1]) + which_b * s->depth * s->columns;
        bool packed_before = node->packed != NULL;
        if (!packed_before && which_b != last_b)
            matrix_pack(b, s->depth, s->columns, at->transpose_b ? 1 : s->columns, at->transpose_b ? s->depth : 1, packed);
        last_b = which_b;
        if (at->transpose_a) {
            size_t size[2] = {s->depth, s->rows}, order[2] = {1, 0};
            transpose_run(a, size, order, 2, sizeof(float), turned);
            a = turned;
        }
        if (!matrix_run(a, s->rows, s->depth, s->depth, packed_before ? node->packed : packed, s->columns, bias,
                        at->activation, (float *)node->outputs[0]->data + number * s->rows * s->columns, workers))
            return "there is not enough memory to work in";
    }
    return NULL;
}

/* Keeps the packed form of a constant matrix, so that only the first run pays for it. */
static void keep_packed(Node *node, const MatrixShape *s, float *packed) {
    const Tensor *b = node->inputs[1];
    if (b->constant && tensor_count(b) == (int64_t)(s->depth * s->columns))
        node->packed = packed;
    else
        free(packed);
}

static Problem run_matmul_shape(Node *node, const MatrixShape *s, Workers *workers) {
    float *packed = NULL, *turned = NULL;
    size_t packed_floats = matrix_packed_floats(s->depth, s->columns);
    if (packed_floats > OHFORGE_MAX_TENSOR_BYTES / sizeof(float)) return "a factor is too large";
    if (!node->packed) packed = malloc(packed_floats * sizeof(float));
    if (node->attributes.transpose_a) turned = malloc(s->rows * s->depth * sizeof(float));
    Problem problem = "there is not enough memory to work in";
    if ((node->packed || packed) && (turned || !node->attributes.transpose_a))
        problem = multiply_all(node, s, packed, turned, workers);
    free(turned);
    if (packed && !problem)
        keep_packed(node, s, packed);
    else
        free(packed);
    return problem;
}

static Problem run_matmul(Node *node, Workers *workers) {
    MatrixShape s;
    Problem problem = matmul_shape(node, &s);
    return problem ? problem : run_matmul_shape(node, &s, workers);
}

static Problem decode_full_connection(Node *node, FbTable t) {
    node->attributes.flag = fb_bool(t, 1, false);
    node->attributes.axis = fb_i64(t, 2, 0);
    node->attributes.transpose_b = true;
    return read_fused_activation(node, fb_i8(t, 3, 0));
}

static Problem full_connection_shape(const Node *node, MatrixShape *s, int64_t *shape, size_t *rank) {
    const Tensor *x = node->inputs[0], *w = node->inputs[1];
    if (w->rank != 2) return "the weights must have two dimensions";
    size_t axis = 1;
    s->rank = s->batch.rank = 0;
    s->columns = dimension(w, 0), s->depth = dimension(w, 1);
    if (s->depth == 0 || s->columns == 0) return "the weights are empty";
    if (node->attributes.flag) {
        Problem problem = read_axis(node->attributes.axis, x->rank, &axis);
        if (problem) return problem;
        if (axis == 0) return "the axis must leave one dimension before it";
        *rank = axis;
        for (size_t i = 0; i < axis; i++) shape[i] = x->shape[i];
    }
    size_t count = (size_t)tensor_count(x);
    if (count % s->depth != 0) return "the input cannot be cut into rows as long as the weights'";
    s->rows = count / s->depth;
    if (!node->attributes.flag) *rank = 1, shape[0] = (int64_t)s->rows;
    size_t rows = 1;
    for (size_t i = 0; i < *rank; i++) rows *= (size_t)shape[i];
    if (rows != s->rows) return "the dimensions after the axis do not fit the weights";
    shape[(*rank)++] = (int64_t)s->columns;
    Problem problem = check_bias(node, (int64_t)s->columns);
    return problem ? problem : require_float(node);
}

static Problem infer_full_connection(Node *node) {
    MatrixShape s;
    int64_t shape[MAX_RANK + 1];
    size_t rank = 0;
    Problem problem = full_connection_shape(node, &s, shape, &rank);
    return problem ? problem : give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, shape, rank);
}

static Problem run_full_connection(Node *node, Workers *workers) {
    MatrixShape s;
    int64_t shape[MAX_RANK + 1];
    size_t rank = 0;
    Problem problem = full_connection_shape(node, &s, shape, &rank);
    return problem ? problem : run_matmul_shape(node, &s, workers);
}

const Operator convolution_operators[] = {
    {17, "AvgPoolFusion", 1, 1, 1, decode_pool, infer_pool, run_pool, false},
    {35, "Conv2DFusion", 2, 3, 1, decode_conv, infer_conv, run_conv, 0},
    {36, "Conv2dTransposeFusion", 2, 3, 1, decode_conv_transpose, infer_conv_transpose, run_conv_transpose, 0},
    {67, "FullConnection", 2, 3, 1, decode_full_connection, infer_full_connection, run_full_connection, 0},
    {89, "MatMulFusion", 2, 3, 1, decode_matmul, infer_matmul, run_matmul, 0},
    {92, "MaxPoolFusion", 1, 1, 1, decode_pool, infer_pool, run_pool, true},
    {0},
};
