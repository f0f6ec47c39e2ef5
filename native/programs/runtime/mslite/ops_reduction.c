/* Operators that make one cell of many, or that norm a row. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static Problem decode_reduce(Node *node, FbTable t) {
    Attributes *a = &node->attributes;
    a->keep = fb_bool(t, 0, false);
    a->kind = fb_i8(t, 1, 0);
    a->flag = fb_bool(t, 2, false);
    a->x = a->flag ? fb_f32(t, 3, 0.0f) : 1.0f; /* MindSpore Lite leaves the factor out unless it reduces to the end. */
    if (a->x == 0.0f) a->x = 1.0f;              /* Absent: no factor. */
    if (a->flag) a->keep = false;               /* Nor does it keep dimensions then. */
    if (a->kind < 0 || a->kind > REDUCE_L2 || a->kind == 7) return "the reference runtime lacks this mode";
    return NULL;
}

static Problem reduced_axes(const Node *node, bool *marked) {
    const Tensor *x = node->inputs[0];
    int64_t axes[MAX_RANK];
    size_t count = 0, axis;
    memset(marked, 0, MAX_RANK * sizeof *marked);
    if (node->input_count > 1) {
        Problem problem = read_integers(node->inputs[1], axes, MAX_RANK, &count);
        if (problem) return problem;
    }
    for (size_t i = 0; i < count; i++) {
        Problem problem = read_axis(axes[i], x->rank, &axis);
        if (problem) return problem;
        marked[axis] = true;
        if (node->attributes.flag)
            for (size_t later = axis; later < x->rank; later++) marked[later] = true;
    }
    if (count == 0)
        for (size_t i = 0; i < x->rank; i++) marked[i] = true;
    return NULL;
}

static Problem infer_reduce(Node *node) {
    const Tensor *x = node->inputs[0];
    bool marked[MAX_RANK];
    int64_t shape[MAX_RANK];
    size_t rank = 0;
    if (x->type != OH_AI_DATATYPE_NUMBERTYPE_FLOAT32) return "the reference runtime computes this in float32 only";
    Problem problem = reduced_axes(node, marked);
    if (problem) return problem;
    for (size_t axis = 0; axis < x->rank; axis++) {
        if (marked[axis] && !node->attributes.keep) continue;
        shape[rank++] = marked[axis] ? 1 : x->shape[axis];
    }
    return give_shape(node->outputs[0], x->type, shape, rank);
}

static Problem run_reduce(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    bool marked[MAX_RANK];
    size_t size[MAX_RANK];
    Problem problem = reduced_axes(node, marked);
    if (problem) return problem;
    sizes_of(x, size);
    reduce_run((ReduceKind)node->attributes.kind, floats(x), size, x->rank, marked, node->attributes.x,
               node->outputs[0]->data);
    return NULL;
}

static Problem decode_softmax(Node *node, FbTable t) {
    FbVector axes = fb_vector(t, 0, 8);
    if (axes.count == 0) return "the axis is missing";
    node->attributes.axis = fb_i64_item(axes, 0);
    if (node->attributes.axis < -1) return "MindSpore Lite takes -1 as the only negative axis here";
    return axes.count == 1 ? NULL : "the reference runtime takes one axis only";
}

static Problem decode_log_softmax(Node *node, FbTable t) {
    node->attributes.axis = fb_i64(t, 0, 0);
    return node->attributes.axis < -1 ? "MindSpore Lite takes -1 as the only negative axis here" : NULL;
}

static Problem infer_softmax(Node *node) {
    size_t axis;
    Problem problem = read_axis(node->attributes.axis, node->inputs[0]->rank, &axis);
    if (!problem) problem = require_float(node);
    return problem ? problem : same_as(node->outputs[0], node->inputs[0]);
}

static Problem run_softmax(Node *node, Workers *workers) {
    (void)workers;
    size_t axis, outer, middle, inner;
    Problem problem = read_axis(node->attributes.axis, node->inputs[0]->rank, &axis);
    if (problem) return problem;
    split_at(node->inputs[0], axis, &outer, &middle, &inner);
    softmax_run(floats(node->inputs[0]), outer, middle, inner, node->op->kind, node->outputs[0]->data);
    return NULL;
}

static Problem decode_layer_norm(Node *node, FbTable t) {
    node->attributes.axis = fb_i64(t, 0, 0);
    node->attributes.x = fb_f32(t, 1, 0.00001f);
    return NULL;
}

static Problem layer_norm_parts(const Node *node, size_t *outer, size_t *inner) {
    const Tensor *x = node->inputs[0];
    size_t axis;
    Problem problem = read_axis(node->attributes.axis, x->rank, &axis);
    if (problem) return problem;
    *outer = *inner = 1;
    for (size_t i = 0; i < x->rank; i++) *(i < axis ? outer : inner) *= dimension(x, i);
    for (size_t i = 1; i < node->input_count; i++)
        if (tensor_count(node->inputs[i]) != (int64_t)*inner) return "there is not one value for each cell of a row";
    return NULL;
}

static Problem infer_layer_norm(Node *node) {
    size_t outer, inner;
    Problem problem = layer_norm_parts(node, &outer, &inner);
    if (!problem) problem = require_float(node);
    return problem ? problem : same_as(node->outputs[0], node->inputs[0]);
}

static Problem run_layer_norm(Node *node, Workers *workers) {
    (void)workers;
    size_t outer, inner;
    Problem problem = layer_norm_parts(node, &outer, &inner);
    if (problem) return problem;
    layer_norm_run(floats(node->inputs[0]), node->input_count > 1 ? floats(node->inputs[1]) : NULL,
                   node->input_count > 2 ? floats(node->inputs[2]) : NULL, outer, inner, node->attributes.x,
                   node->outputs[0]->data);
    return NULL;
}

const Operator reducing_operators[] = {
    {75, "LayerNormFusion", 1, 3, 1, decode_layer_norm, infer_layer_norm, run_layer_norm, 0},
    {118, "ReduceFusion", 1, 2, 1, decode_reduce, infer_reduce, run_reduce, 0},
    {138, "Softmax", 1, 1, 1, decode_softmax, infer_softmax, run_softmax, false},
    {189, "LogSoftmax", 1, 1, 1, decode_log_softmax, infer_softmax, run_softmax, true},
    {0},
};
