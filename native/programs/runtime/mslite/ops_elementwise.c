/* Operators that work cell by cell. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static Problem infer_same_float(Node *node) {
    Problem problem = require_float(node);
    return problem ? problem : same_as(node->outputs[0], node->inputs[0]);
}

static size_t count_of(const Tensor *tensor) { return (size_t)tensor_count(tensor); }

/* --- activations --- */

static Problem decode_activation(Node *node, FbTable t) {
    node->attributes.activation.alpha = fb_f32(t, 1, 0.0f);
    node->attributes.activation.approximate = fb_bool(t, 4, false);
    int number = fb_i8(t, 0, 0);
    if (!activation_known(number)) return "the reference runtime lacks this activation";
    node->attributes.activation.kind = (ActivationKind)number;
    return NULL;
}

static Problem run_activation(Node *node, Workers *workers) {
    (void)workers;
    activate(floats(node->inputs[0]), node->outputs[0]->data, count_of(node->inputs[0]), node->attributes.activation);
    return NULL;
}

static Problem decode_prelu(Node *node, FbTable t) {
    node->attributes.flag = fb_bool(t, 0, false);
    return NULL;
}

static Problem infer_prelu(Node *node) {
    const Tensor *x = node->inputs[0];
    int64_t slopes = tensor_count(node->inputs[1]);
    if (x->rank != 4 || slopes < 1) return "MindSpore Lite takes this for four dimensions only";
    node->attributes.keep = node->attributes.flag || slopes == 1; /* One slope for all. */
    if (!node->attributes.keep && slopes != x->shape[x->rank - 1]) return "there is not one slope for each channel";
    return infer_same_float(node);
}

static Problem run_prelu(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    size_t channels = dimension(x, x->rank - 1);
    prelu_run(floats(x), floats(node->inputs[1]), count_of(x) / channels, channels, node->attributes.keep,
              node->outputs[0]->data);
    return NULL;
}

static Problem decode_clip(Node *node, FbTable t) {
    node->attributes.y = fb_f32(t, 0, 0.0f);
    node->attributes.x = fb_f32(t, 1, 0.0f);
    return NULL;
}

static Problem run_clip(Node *node, Workers *workers) {
    (void)workers;
    float low = node->attributes.x, high = node->attributes.y;
    const float *in = floats(node->inputs[0]);
    float *out = node->outputs[0]->data;
    for (size_t i = 0; i < count_of(node->inputs[0]); i++) out[i] = in[i] < low ? low : in[i] > high ? high : in[i];
    return NULL;
}

/* --- two operands --- */

static Problem decode_binary(Node *node, FbTable t) { return read_fused_activation(node, fb_i8(t, 0, 0)); }

static Problem decode_power(Node *node, FbTable t) {
    node->attributes.x = fb_f32(t, 0, 1.0f);
    node->attributes.y = fb_f32(t, 1, 0.0f);
    return NULL;
}

static Problem decode_eltwise(Node *node, FbTable t) {
    static const BinaryKind kinds[] = {BINARY_MUL, BINARY_ADD, BINARY_MAX};
    int mode = fb_i8(t, 0, 0);
    if (mode < 0 || mode > 2) return "the mode is unknown";
    node->attributes.kind = kinds[mode];
    return NULL;
}

static Problem infer_binary(Node *node) {
    const Tensor *a = node->inputs[0], *b = node->inputs[1];
    Broadcast plan;
    if (a->type != b->type) return "the operands have different data types";
    bool whole = a->type == OH_AI_DATATYPE_NUMBERTYPE_INT32 && node->op->kind != BINARY_POW;
    if (!whole && a->type != OH_AI_DATATYPE_NUMBERTYPE_FLOAT32)
        return "the reference runtime computes this in float32 and int32 only";
    if (!broadcast_plan(a->shape, a->rank, b->shape, b->rank, &plan)) return "the shapes do not fit together";
    int64_t shape[MAX_RANK];
    for (size_t axis = 0; axis < plan.rank; axis++) shape[axis] = (int64_t)plan.size[axis];
    return give_shape(node->outputs[0], a->type, shape, plan.rank);
}

static Problem run_binary_as(Node *node, BinaryKind kind) {
    const Tensor *a = node->inputs[0], *b = node->inputs[1];
    Tensor *out = node->outputs[0];
    Broadcast plan;
    if (!broadcast_plan(a->shape, a->rank, b->shape, b->rank, &plan)) return "the shapes do not fit together";
    if (a->type == OH_AI_DATATYPE_NUMBERTYPE_INT32) {
        binary_int(kind, &plan, a->data, b->data, out->data);
        return NULL;
    }
    binary_float(kind, &plan, floats(a), floats(b), out->data);
    activate(out->data, out->data, count_of(out), node->attributes.activation);
    return NULL;
}

static Problem run_binary(Node *node, Workers *workers) {
    (void)workers;
    return run_binary_as(node, (BinaryKind)node->op->kind);
}

static Problem run_eltwise(Node *node, Workers *workers) {
    (void)workers;
    return run_binary_as(node, (BinaryKind)node->attributes.kind);
}

static Problem run_power(Node *node, Workers *workers) {
    (void)workers;
    const Attributes *a = &node->attributes;
    const Tensor *x = node->inputs[0], *exponent = node->inputs[1];
    size_t count = count_of(x);
    Broadcast plan;
    if (!broadcast_plan(x->shape, x->rank, exponent->shape, exponent->rank, &plan)) return "the shapes do not fit";
    float *base = malloc(count * sizeof(float));
    if (!base) return "there is not enough memory to work in";
    for (size_t i = 0; i < count; i++) base[i] = floats(x)[i] * a->x + a->y;
    binary_float(BINARY_POW, &plan, base, floats(exponent), node->outputs[0]->data);
    free(base);
    return NULL;
}

/* --- one operand --- */

static Problem decode_exp(Node *node, FbTable t) {
    node->attributes.x = fb_f32(t, 1, 1.0f);
    node->attributes.y = fb_f32(t, 2, 0.0f);
    return fb_f32(t, 0, -1.0f) == -1.0f ? NULL : "the reference runtime takes only e as the base";
}

static Problem run_exp(Node *node, Workers *workers) {
    (void)workers;
    float *out = node->outputs[0]->data;
    for (size_t i = 0; i < count_of(node->inputs[0]); i++)
        out[i] = expf(floats(node->inputs[0])[i] * node->attributes.x + node->attributes.y);
    return NULL;
}

static Problem run_unary(Node *node, Workers *workers) {
    (void)workers;
    unary_float((UnaryKind)node->op->kind, floats(node->inputs[0]), node->outputs[0]->data, count_of(node->inputs[0]));
    return NULL;
}

/* --- one value for each channel --- */

static Problem infer_bias_add(Node *node) {
    const Tensor *x = node->inputs[0];
    if (x->rank == 0 || tensor_count(node->inputs[1]) != x->shape[x->rank - 1])
        return "the bias does not have one value for each channel";
    return infer_same_float(node);
}

static Problem run_bias_add(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    size_t channels = dimension(x, x->rank - 1);
    scale_run(floats(x), NULL, floats(node->inputs[1]), count_of(x) / channels, channels, 1, node->outputs[0]->data);
    return NULL;
}

static Problem decode_scale(Node *node, FbTable t) {
    node->attributes.axis = fb_i64(t, 0, 0);
    return read_fused_activation(node, fb_i8(t, 1, 0));
}

/* The factor may span several dimensions from the axis on. */
static Problem scale_parts(const Node *node, size_t *outer, size_t *middle, size_t *inner) {
    const Tensor *x = node->inputs[0], *factor = node->inputs[1];
    size_t axis;
    Problem problem = read_axis(node->attributes.axis, x->rank, &axis);
    if (problem) return problem;
    if (factor->rank > x->rank - axis) return "the factor has more dimensions than the input from the axis on";
    *outer = *middle = *inner = 1;
    for (size_t i = 0; i < x->rank; i++) {
        bool spanned = i >= axis && i < axis + factor->rank;
        if (spanned && factor->shape[i - axis] != x->shape[i]) return "the factor does not fit the input";
        *(i < axis ? outer : spanned ? middle : inner) *= dimension(x, i);
    }
    if (node->input_count > 2 && tensor_count(node->inputs[2]) != tensor_count(factor))
        return "factor and offset differ in size";
    return NULL;
}

static Problem infer_scale(Node *node) {
    size_t outer, middle, inner;
    Problem problem = scale_parts(node, &outer, &middle, &inner);
    return problem ? problem : infer_same_float(node);
}

static Problem run_scale(Node *node, Workers *workers) {
    (void)workers;
    size_t outer, middle, inner;
    Problem problem = scale_parts(node, &outer, &middle, &inner);
    if (problem) return problem;
    float *out = node->outputs[0]->data;
    scale_run(floats(node->inputs[0]), floats(node->inputs[1]), node->input_count > 2 ? floats(node->inputs[2]) : NULL,
              outer, middle, inner, out);
    activate(out, out, count_of(node->outputs[0]), node->attributes.activation);
    return NULL;
}

static Problem decode_batch_norm(Node *node, FbTable t) {
    node->attributes.x = fb_f32(t, 0, 0.0001f);
    return NULL;
}

static Problem infer_batch_norm(Node *node) {
    const Tensor *x = node->inputs[0];
    for (size_t i = 1; i < 5; i++)
        if (x->rank == 0 || tensor_count(node->inputs[i]) != x->shape[x->rank - 1])
            return "there is not one value for each channel";
    return infer_same_float(node);
}

static Problem run_batch_norm(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    const float *scale = floats(node->inputs[1]), *offset = floats(node->inputs[2]);
    const float *mean = floats(node->inputs[3]), *variance = floats(node->inputs[4]);
    size_t channels = dimension(x, x->rank - 1);
    float *out = node->outputs[0]->data;
    for (size_t i = 0; i < count_of(x); i++) {
        size_t c = i % channels;
        out[i] = (floats(x)[i] - mean[c]) / sqrtf(variance[c] + node->attributes.x) * scale[c] + offset[c];
    }
    return NULL;
}

/* --- data types --- */

static bool number_at(const Tensor *tensor, size_t i, double *value) {
    const char *at = (const char *)tensor->data + i * type_bytes(tensor->type);
    int64_t wide;
    switch (tensor->type) {
        case OH_AI_DATATYPE_NUMBERTYPE_BOOL:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT8:
            return *value = *(const uint8_t *)at, true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT8:
            return *value = *(const int8_t *)at, true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT32:
            return *value = *(const int32_t *)at, true;
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT32:
            return *value = (double)*(const float *)at, true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT64:
            memcpy(&wide, at, sizeof wide);
            return *value = (double)wide, true;
        default:
            return false;
    }
}

static double within(double value, double low, double high) {
    return isnan(value) ? 0.0 : value < low ? low : value > high ? high : value;
}

static bool put_number(Tensor *tensor, size_t i, double value) {
    char *at = (char *)tensor->data + i * type_bytes(tensor->type);
    int64_t wide;
    switch (tensor->type) {
        case OH_AI_DATATYPE_NUMBERTYPE_BOOL:
            return *(uint8_t *)at = value != 0.0, true;
        case OH_AI_DATATYPE_NUMBERTYPE_UINT8:
            return *(uint8_t *)at = (uint8_t)within(value, 0, 255), true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT8:
            return *(int8_t *)at = (int8_t)within(value, -128, 127), true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT32:
            return *(int32_t *)at = (int32_t)within(value, INT32_MIN, INT32_MAX), true;
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT32:
            return *(float *)at = (float)value, true;
        case OH_AI_DATATYPE_NUMBERTYPE_INT64:
            wide = (int64_t)within(value, -0x1p62, 0x1p62);
            return memcpy(at, &wide, sizeof wide), true;
        default:
            return false;
    }
}

static Problem infer_cast(Node *node) {
    int64_t number;
    size_t count;
    Problem problem = read_integers(node->inputs[1], &number, 1, &count);
    if (problem) return problem;
    if (count != 1) return "the data type is missing";
    return give_shape(node->outputs[0], (OH_AI_DataType)number, node->inputs[0]->shape, node->inputs[0]->rank);
}

static Problem run_cast(Node *node, Workers *workers) {
    (void)workers;
    double value;
    for (size_t i = 0; i < count_of(node->inputs[0]); i++)
        if (!number_at(node->inputs[0], i, &value) || !put_number(node->outputs[0], i, value))
            return "the reference runtime does not convert these data types";
    return NULL;
}

const Operator elementwise_operators[] = {
    {1, "Abs", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_ABS},
    {2, "Activation", 1, 1, 1, decode_activation, infer_same_float, run_activation, 0},
    {5, "AddFusion", 2, 2, 1, decode_binary, infer_binary, run_binary, BINARY_ADD},
    {23, "BiasAdd", 2, 2, 1, NULL, infer_bias_add, run_bias_add, 0},
    {28, "Cast", 2, 2, 1, NULL, infer_cast, run_cast, 0},
    {29, "Ceil", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_CEIL},
    {30, "Clip", 1, 1, 1, decode_clip, infer_same_float, run_clip, 0},
    {37, "Cos", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_COS},
    {47, "DivFusion", 2, 2, 1, decode_binary, infer_binary, run_binary, BINARY_DIV},
    {52, "Eltwise", 2, 2, 1, decode_eltwise, infer_binary, run_eltwise, 0},
    {55, "ExpFusion", 1, 1, 1, decode_exp, infer_same_float, run_exp, 0},
    {63, "Floor", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_FLOOR},
    {68, "FusedBatchNorm", 5, 5, 1, decode_batch_norm, infer_batch_norm, run_batch_norm, 0},
    {79, "Log", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_LOG},
    {90, "Maximum", 2, 2, 1, NULL, infer_binary, run_binary, BINARY_MAX},
    {96, "Minimum", 2, 2, 1, NULL, infer_binary, run_binary, BINARY_MIN},
    {99, "MulFusion", 2, 2, 1, decode_binary, infer_binary, run_binary, BINARY_MUL},
    {101, "Neg", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_NEG},
    {110, "PowFusion", 2, 2, 1, decode_power, infer_binary, run_power, BINARY_POW},
    {112, "PReLUFusion", 2, 2, 1, decode_prelu, infer_prelu, run_prelu, 0},
    {125, "Round", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_ROUND},
    {126, "Rsqrt", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_RSQRT},
    {127, "ScaleFusion", 2, 3, 1, decode_scale, infer_scale, run_scale, 0},
    {133, "Sin", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_SIN},
    {146, "Sqrt", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_SQRT},
    {148, "Square", 1, 1, 1, NULL, infer_same_float, run_unary, UNARY_SQUARE},
    {149, "SquaredDifference", 2, 2, 1, NULL, infer_binary, run_binary, BINARY_SQUARED_DIFFERENCE},
    {152, "SubFusion", 2, 2, 1, decode_binary, infer_binary, run_binary, BINARY_SUB},
    {0},
};
