/* What operators share: giving outputs a shape, reading constants and attributes. */
#include <string.h>

#include "graph.h"

enum { LARGEST_STEP = 1 << 20 }; /* No kernel, stride or padding is near it, and no product of a few overflows. */

Problem give_shape(Tensor *tensor, OH_AI_DataType type, const int64_t *shape, size_t rank) {
    if (rank > MAX_RANK) return "the result has too many dimensions for the reference runtime";
    tensor->type = type;
    tensor->rank = rank;
    for (size_t axis = 0; axis < rank; axis++) {
        if (shape[axis] <= 0) return "the result would be empty";
        tensor->shape[axis] = shape[axis];
    }
    size_t bytes = tensor_bytes(tensor);
    if (bytes == 0 || bytes > OHFORGE_MAX_TENSOR_BYTES) return "the result would be too large";
    return NULL;
}

Problem same_as(Tensor *tensor, const Tensor *model) {
    return give_shape(tensor, model->type, model->shape, model->rank);
}

Problem require_float(const Node *node) {
    for (size_t i = 0; i < node->input_count; i++)
        if (node->inputs[i]->type != OH_AI_DATATYPE_NUMBERTYPE_FLOAT32)
            return "the reference runtime computes this in float32 only";
    return NULL;
}

Problem read_integers(const Tensor *tensor, int64_t *values, size_t limit, size_t *count) {
    if (!tensor->known) return "the reference runtime must know this operator's numbers before the run";
    int64_t cells = tensor_count(tensor);
    if (cells < 0 || (size_t)cells > limit) return "a list of numbers is too long";
    *count = (size_t)cells;
    for (size_t i = 0; i < *count; i++) {
        if (tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT32)
            values[i] = ((const int32_t *)tensor->data)[i];
        else if (tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT64)
            memcpy(&values[i], (const char *)tensor->data + 8 * i, 8);
        else
            return "a list of numbers is not int32 or int64";
    }
    return NULL;
}

Problem read_axis_from_start(int64_t axis, size_t rank, size_t *out) {
    if (axis < 0) return "MindSpore Lite does not take a negative axis here";
    return read_axis(axis, rank, out);
}

Problem read_axis(int64_t axis, size_t rank, size_t *out) {
    if (axis < 0) axis += (int64_t)rank;
    if (axis < 0 || axis >= (int64_t)rank) return "the axis does not exist";
    *out = (size_t)axis;
    return NULL;
}

Problem read_pair(FbTable attributes, unsigned slot, int64_t pair[2], int64_t least) {
    FbVector list = fb_vector(attributes, slot, 8);
    if (list.count < 2) return "a pair of numbers (kernel, stride or dilation) is missing";
    for (size_t i = 0; i < 2; i++) {
        pair[i] = fb_i64_item(list, i);
        if (pair[i] < least || pair[i] > LARGEST_STEP) return "a kernel, stride or dilation is out of range";
    }
    return NULL;
}

/* MindSpore Lite refuses other activations with most operators, and forgets them without a word with the rest. */
Problem read_fused_activation(Node *node, int number) {
    if (number != ACTIVATE_NONE && number != ACTIVATE_RELU && number != ACTIVATE_RELU6)
        return "only relu and relu6 can be fused into this operator";
    node->attributes.activation.kind = (ActivationKind)number;
    return NULL;
}

void sizes_of(const Tensor *tensor, size_t *sizes) {
    for (size_t axis = 0; axis < tensor->rank; axis++) sizes[axis] = (size_t)tensor->shape[axis];
}

void split_at(const Tensor *tensor, size_t axis, size_t *outer, size_t *middle, size_t *inner) {
    *outer = *inner = 1;
    *middle = axis < tensor->rank ? dimension(tensor, axis) : 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (i < axis) *outer *= dimension(tensor, i);
        if (i > axis) *inner *= dimension(tensor, i);
    }
}

Problem decode_axes(Node *node, FbTable t) {
    FbVector list = fb_vector(t, 0, 8);
    if (list.count > MAX_RANK) return "there are too many axes";
    node->attributes.axis_count = list.count;
    for (size_t i = 0; i < list.count; i++) node->attributes.axes[i] = fb_i64_item(list, i);
    return NULL;
}
