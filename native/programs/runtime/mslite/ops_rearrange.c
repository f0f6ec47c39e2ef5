/* Operators that move cells about without looking at them. */
#include <string.h>

#include "graph.h"

static size_t item_bytes(const Node *node) { return type_bytes(node->inputs[0]->type); }

static Problem copy_cells(Node *node, Workers *workers) {
    (void)workers;
    memcpy(node->outputs[0]->data, node->inputs[0]->data, tensor_bytes(node->outputs[0]));
    return NULL;
}

static Problem decode_axis(Node *node, FbTable t) {
    node->attributes.axis = fb_i64(t, 0, 0);
    return NULL;
}

/* --- another shape for the same cells --- */

static Problem decode_flatten(Node *node, FbTable t) {
    node->attributes.axis = fb_i64(t, 0, 1);
    return NULL;
}

static Problem infer_flatten(Node *node) {
    const Tensor *x = node->inputs[0];
    int64_t axis = node->attributes.axis, shape[2] = {1, 1};
    if (axis < 0) axis += (int64_t)x->rank;
    if (axis < 0 || axis >= (int64_t)x->rank) return "the axis does not exist";
    for (size_t i = 0; i < x->rank; i++) shape[(int64_t)i >= axis] *= x->shape[i];
    return give_shape(node->outputs[0], x->type, shape, 2);
}

static Problem infer_reshape(Node *node) {
    const Tensor *x = node->inputs[0];
    int64_t shape[MAX_RANK], product = 1, cells = tensor_count(x);
    size_t rank, open = MAX_RANK;
    Problem problem = read_integers(node->inputs[1], shape, MAX_RANK, &rank);
    if (problem) return problem;
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] == 0) { /* As it was. */
            if (i >= x->rank) return "the shape copies a dimension that is not there";
            shape[i] = x->shape[i];
        }
        if (shape[i] == -1) {
            if (open != MAX_RANK) return "the shape leaves two dimensions open";
            open = i;
            continue;
        }
        if (shape[i] < 1 || shape[i] > cells) return "the shape does not have as many cells as the input";
        product *= shape[i];
        if (product > cells) return "the shape does not have as many cells as the input";
    }
    if (open != MAX_RANK) {
        shape[open] = cells / product;
        product *= shape[open];
    }
    if (product != cells) return "the shape does not have as many cells as the input";
    return give_shape(node->outputs[0], x->type, shape, rank);
}

static Problem infer_squeeze(Node *node) {
    const Tensor *x = node->inputs[0];
    const Attributes *a = &node->attributes;
    bool gone[MAX_RANK] = {false};
    int64_t shape[MAX_RANK];
    size_t rank = 0, axis;
    for (size_t i = 0; i < a->axis_count; i++) {
        Problem problem = read_axis(a->axes[i], x->rank, &axis);
        if (problem) return problem;
        if (x->shape[axis] != 1) return "a dimension to be removed is not 1";
        gone[axis] = true;
    }
    for (size_t i = 0; i < x->rank; i++)
        if (!gone[i] && (a->axis_count || x->shape[i] != 1)) shape[rank++] = x->shape[i];
    return give_shape(node->outputs[0], x->type, shape, rank);
}

static Problem infer_unsqueeze(Node *node) {
    const Tensor *x = node->inputs[0];
    const Attributes *a = &node->attributes;
    size_t rank = x->rank + a->axis_count, axis, next = 0;
    bool new[2 * MAX_RANK] = {false};
    int64_t shape[2 * MAX_RANK];
    if (rank > MAX_RANK) return "the result has too many dimensions for the reference runtime";
    for (size_t i = 0; i < a->axis_count; i++) {
        Problem problem = read_axis(a->axes[i], rank, &axis);
        if (problem) return problem;
        if (new[axis]) return "an axis is named twice";
        new[axis] = true;
    }
    for (size_t i = 0; i < rank; i++) shape[i] = new[i] ? 1 : x->shape[next++];
    return give_shape(node->outputs[0], x->type, shape, rank);
}

/* --- another order --- */

static Problem transpose_order(const Node *node, size_t *order) {
    const Tensor *x = node->inputs[0];
    int64_t numbers[MAX_RANK];
    size_t count;
    bool seen[MAX_RANK] = {false};
    Problem problem = read_integers(node->inputs[1], numbers, MAX_RANK, &count);
    if (problem) return problem;
    if (count != x->rank) return "the order does not name every dimension";
    for (size_t i = 0; i < count; i++) {
        problem = read_axis_from_start(numbers[i], x->rank, &order[i]);
        if (problem) return problem;
        if (seen[order[i]]) return "the order names a dimension twice";
        seen[order[i]] = true;
    }
    return NULL;
}

static Problem infer_transpose(Node *node) {
    const Tensor *x = node->inputs[0];
    size_t order[MAX_RANK];
    int64_t shape[MAX_RANK];
    Problem problem = transpose_order(node, order);
    if (problem) return problem;
    for (size_t i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]];
    return give_shape(node->outputs[0], x->type, shape, x->rank);
}

static Problem run_transpose(Node *node, Workers *workers) {
    (void)workers;
    size_t order[MAX_RANK], size[MAX_RANK];
    Problem problem = transpose_order(node, order);
    if (problem) return problem;
    sizes_of(node->inputs[0], size);
    transpose_run(node->inputs[0]->data, size, order, node->inputs[0]->rank, item_bytes(node), node->outputs[0]->data);
    return NULL;
}

/* --- parts put together --- */

static Problem infer_concat(Node *node) {
    const Tensor *first = node->inputs[0];
    int64_t shape[MAX_RANK];
    size_t axis;
    Problem problem = read_axis(node->attributes.axis, first->rank, &axis);
    if (problem) return problem;
    memcpy(shape, first->shape, first->rank * sizeof *shape);
    for (size_t i = 1; i < node->input_count; i++) {
        const Tensor *part = node->inputs[i];
        if (part->rank != first->rank || part->type != first->type) return "the parts differ in rank or data type";
        for (size_t d = 0; d < first->rank; d++)
            if (d != axis && part->shape[d] != first->shape[d]) return "the parts differ beside the axis";
        if (part->shape[axis] > INT32_MAX || shape[axis] > INT32_MAX) return "the result would be too large";
        shape[axis] += part->shape[axis];
    }
    return give_shape(node->outputs[0], first->type, shape, first->rank);
}

static Problem run_concat(Node *node, Workers *workers) {
    (void)workers;
    size_t axis, outer, middle, inner, place = 0;
    Problem problem = read_axis(node->attributes.axis, node->inputs[0]->rank, &axis);
    if (problem) return problem;
    size_t item = item_bytes(node), whole;
    split_at(node->outputs[0], axis, &outer, &middle, &inner);
    whole = middle * inner * item;
    for (size_t i = 0; i < node->input_count; i++) {
        split_at(node->inputs[i], axis, &outer, &middle, &inner);
        size_t part = middle * inner * item;
        for (size_t o = 0; o < outer; o++)
            memcpy((char *)node->outputs[0]->data + o * whole + place, (const char *)node->inputs[i]->data + o * part, part);
        place += part;
    }
    return NULL;
}

static Problem infer_shape(Node *node) {
    int64_t shape[1] = {(int64_t)node->inputs[0]->rank};
    return give_shape(node->outputs[0], OH_AI_DATATYPE_NUMBERTYPE_INT32, shape, 1);
}

static Problem run_shape(Node *node, Workers *workers) {
    (void)workers;
    int32_t *out = node->outputs[0]->data;
    for (size_t i = 0; i < node->inputs[0]->rank; i++) out[i] = (int32_t)node->inputs[0]->shape[i];
    return NULL;
}

/* --- padding and resizing --- */

static Problem decode_pad(Node *node, FbTable t) {
    node->attributes.x = fb_f32(t, 2, 0.0f);
    return fb_i8(t, 1, 0) == 0 ? NULL : "the reference runtime pads with a constant only";
}

static Problem pad_widths(const Node *node, size_t *before, size_t *out_size) {
    const Tensor *x = node->inputs[0];
    int64_t widths[2 * MAX_RANK];
    size_t count;
    Problem problem = read_integers(node->inputs[1], widths, 2 * MAX_RANK, &count);
    if (problem) return problem;
    if (count != 2 * x->rank) return "there are not two widths for each dimension";
    for (size_t i = 0; i < x->rank; i++) {
        if (widths[2 * i] < 0 || widths[2 * i] > 1 << 20 || widths[2 * i + 1] < 0 || widths[2 * i + 1] > 1 << 20)
            return "a width is out of range";
        before[i] = (size_t)widths[2 * i];
        out_size[i] = dimension(x, i) + (size_t)widths[2 * i] + (size_t)widths[2 * i + 1];
    }
    return NULL;
}

static Problem infer_pad(Node *node) {
    size_t before[MAX_RANK], out_size[MAX_RANK];
    int64_t shape[MAX_RANK];
    if (node->inputs[0]->type != OH_AI_DATATYPE_NUMBERTYPE_FLOAT32)
        return "the reference runtime computes this in float32 only";
    Problem problem = pad_widths(node, before, out_size);
    if (problem) return problem;
    for (size_t i = 0; i < node->inputs[0]->rank; i++) shape[i] = (int64_t)out_size[i];
    return give_shape(node->outputs[0], node->inputs[0]->type, shape, node->inputs[0]->rank);
}

static Problem run_pad(Node *node, Workers *workers) {
    (void)workers;
    size_t before[MAX_RANK], out_size[MAX_RANK], size[MAX_RANK];
    Problem problem = pad_widths(node, before, out_size);
    if (problem) return problem;
    sizes_of(node->inputs[0], size);
    pad_run(node->inputs[0]->data, size, before, out_size, node->inputs[0]->rank, &node->attributes.x, sizeof(float),
            node->outputs[0]->data);
    return NULL;
}

static Problem decode_resize(Node *node, FbTable t) {
    Attributes *a = &node->attributes;
    a->kind = fb_i8(t, 1, 0);
    a->kernel[0] = fb_i64(t, 2, 0), a->kernel[1] = fb_i64(t, 3, 0);
    a->group = fb_i8(t, 5, 0);
    if (a->kind < 0 || a->kind > 1) return "the reference runtime resizes linearly or to the nearest only";
    return a->group < 0 || a->group > 2 ? "the reference runtime lacks this mapping of coordinates" : NULL;
}

static Problem infer_resize(Node *node) {
    const Tensor *x = node->inputs[0];
    int64_t size[2] = {node->attributes.kernel[0], node->attributes.kernel[1]};
    size_t count = 2;
    if (x->rank != 4 || x->type != OH_AI_DATATYPE_NUMBERTYPE_FLOAT32) return "the input must be float32 NHWC";
    Problem problem = node->input_count > 1 ? read_integers(node->inputs[1], size, 2, &count) : NULL;
    if (problem) return problem;
    int64_t shape[4] = {x->shape[0], size[0], size[1], x->shape[3]};
    return count == 2 ? give_shape(node->outputs[0], x->type, shape, 4) : "the new size is not two numbers";
}

static Problem run_resize(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0], *out = node->outputs[0];
    resize_run(floats(x), dimension(x, 0), dimension(x, 1), dimension(x, 2), dimension(x, 3), dimension(out, 1),
               dimension(out, 2), node->attributes.kind == 1, (ResizeCoordinates)node->attributes.group, out->data);
    return NULL;
}

const Operator rearranging_operators[] = {
    {31, "Concat", 1, 64, 1, decode_axis, infer_concat, run_concat, 0},
    {61, "Flatten", 1, 1, 1, decode_flatten, infer_flatten, copy_cells, 0},
    {107, "PadFusion", 2, 2, 1, decode_pad, infer_pad, run_pad, 0},
    {119, "Reshape", 2, 2, 1, NULL, infer_reshape, copy_cells, 0},
    {120, "Resize", 1, 2, 1, decode_resize, infer_resize, run_resize, 0},
    {130, "Shape", 1, 1, 1, NULL, infer_shape, run_shape, 0},
    {147, "Squeeze", 1, 1, 1, decode_axes, infer_squeeze, copy_cells, 0},
    {162, "Transpose", 2, 2, 1, NULL, infer_transpose, run_transpose, 0},
    {165, "Unsqueeze", 1, 1, 1, decode_axes, infer_unsqueeze, copy_cells, 0},
    {0},
};
