/* Operators that cut parts out of a tensor. */
#include <string.h>

#include "graph.h"

static size_t item_bytes(const Node *node) { return type_bytes(node->inputs[0]->type); }

static Problem decode_split(Node *node, FbTable t) {
    node->attributes.group = fb_i64(t, 0, 0);
    node->attributes.list = fb_vector(t, 1, 8);
    node->attributes.axis = fb_i64(t, 2, 0);
    return NULL;
}

enum { MAX_PARTS = 64 };

/* The sizes stand in the attributes or, in models from ONNX 13 on, in a second input; none: all are the same. */
static Problem split_sizes(const Node *node, int64_t sizes[MAX_PARTS], size_t *count) {
    const FbVector list = node->attributes.list;
    *count = 0;
    if (node->input_count > 1) return read_integers(node->inputs[1], sizes, MAX_PARTS, count);
    if (list.count > MAX_PARTS) return "the sizes and the results differ in number";
    for (; *count < list.count; (*count)++) sizes[*count] = fb_i64_item(list, *count);
    return NULL;
}

static Problem part_size(const Node *node, size_t axis, size_t number, int64_t *size) {
    int64_t whole = node->inputs[0]->shape[axis], known = 0, sizes[MAX_PARTS];
    size_t open = 0, count;
    Problem problem = split_sizes(node, sizes, &count);
    if (problem) return problem;
    if (count == 0) {
        if (whole % (int64_t)node->output_count) return "the dimension cannot be split evenly";
        *size = whole / (int64_t)node->output_count;
        return NULL;
    }
    if (count != node->output_count) return "the sizes and the results differ in number";
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] < -1 || sizes[i] > whole) return "a size is out of range";
        if (sizes[i] == -1)
            open++;
        else
            known += sizes[i];
        if (known > whole) return "the sizes are larger than the dimension";
    }
    if (open > 1 || (open == 0 && known != whole)) return "the sizes do not add up to the dimension";
    *size = sizes[number] == -1 ? whole - known : sizes[number];
    return NULL;
}

static Problem infer_split(Node *node) {
    const Tensor *x = node->inputs[0];
    size_t axis;
    Problem problem = read_axis(node->attributes.axis, x->rank, &axis);
    for (size_t i = 0; !problem && i < node->output_count; i++) {
        int64_t shape[MAX_RANK];
        memcpy(shape, x->shape, x->rank * sizeof *shape);
        problem = part_size(node, axis, i, &shape[axis]);
        if (!problem) problem = give_shape(node->outputs[i], x->type, shape, x->rank);
    }
    return problem;
}

static Problem run_split(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    size_t axis, outer, middle, inner, place = 0, item = item_bytes(node);
    Problem problem = read_axis(node->attributes.axis, x->rank, &axis);
    if (problem) return problem;
    split_at(x, axis, &outer, &middle, &inner);
    size_t whole = middle * inner * item;
    for (size_t i = 0; i < node->output_count; i++) {
        size_t part = dimension(node->outputs[i], axis) * inner * item;
        for (size_t o = 0; o < outer; o++)
            memcpy((char *)node->outputs[i]->data + o * part, (const char *)x->data + o * whole + place, part);
        place += part;
    }
    return NULL;
}

typedef struct Cut {
    int64_t begin[MAX_RANK], step[MAX_RANK], count[MAX_RANK];
    bool gone[MAX_RANK]; /* A dimension that the result does not keep. */
} Cut;

static Problem slice_cut(const Node *node, Cut *cut) {
    const Tensor *x = node->inputs[0];
    const Attributes *a = &node->attributes;
    int64_t begin[MAX_RANK], size[MAX_RANK];
    size_t begins, sizes, axis;
    Problem problem = read_integers(node->inputs[1], begin, MAX_RANK, &begins);
    if (!problem) problem = read_integers(node->inputs[2], size, MAX_RANK, &sizes);
    if (problem) return problem;
    if (begins != sizes || (a->axis_count && a->axis_count != begins) || begins > x->rank)
        return "beginnings, sizes and axes differ in number";
    for (size_t i = 0; i < x->rank; i++) cut->begin[i] = 0, cut->step[i] = 1, cut->count[i] = x->shape[i];
    for (size_t i = 0; i < begins; i++) {
        problem = read_axis(a->axis_count ? a->axes[i] : (int64_t)i, x->rank, &axis);
        if (problem) return problem;
        if (begin[i] < 0 || begin[i] >= x->shape[axis]) return "a beginning is out of range";
        int64_t left = x->shape[axis] - begin[i];
        cut->begin[axis] = begin[i];
        cut->count[axis] = size[i] == -1 ? left : size[i];
        if (cut->count[axis] < 1 || cut->count[axis] > left) return "a size is out of range";
    }
    return NULL;
}

static Problem decode_strided_slice(Node *node, FbTable t) {
    for (unsigned i = 0; i < 5; i++) node->attributes.masks[i] = fb_i64(t, i, 0);
    if (node->attributes.masks[2] || node->attributes.masks[3])
        return "the reference runtime lacks ellipsis and new axes";
    return NULL;
}

static int64_t clamped(int64_t value, int64_t size, int64_t low, int64_t high) {
    if (value < 0) value += size;
    return value < low ? low : value > high ? high : value;
}

static Problem strided_cut(const Node *node, Cut *cut) {
    const Tensor *x = node->inputs[0];
    const int64_t *mask = node->attributes.masks;
    int64_t begin[MAX_RANK], end[MAX_RANK], step[MAX_RANK];
    size_t begins, ends, steps;
    Problem problem = read_integers(node->inputs[1], begin, MAX_RANK, &begins);
    if (!problem) problem = read_integers(node->inputs[2], end, MAX_RANK, &ends);
    if (!problem) problem = read_integers(node->inputs[3], step, MAX_RANK, &steps);
    if (problem) return problem;
    if (begins != ends || begins != steps || begins > x->rank) return "beginnings, ends and steps differ in number";
    for (size_t i = 0; i < x->rank; i++) {
        int64_t size = x->shape[i];
        if (i < begins && (begin[i] < -size || begin[i] > size || end[i] < -size - 1 || end[i] > size))
            return "MindSpore Lite does not take a beginning or end outside the dimension";
        bool given = i < begins, backward = given && step[i] < 0;
        cut->step[i] = given ? step[i] : 1;
        if (cut->step[i] == 0 || cut->step[i] > INT32_MAX || cut->step[i] < -INT32_MAX) return "a step is out of range";
        bool from_edge = !given || mask[0] >> i & 1, to_edge = !given || mask[1] >> i & 1;
        int64_t low = backward ? -1 : 0, high = backward ? size - 1 : size;
        int64_t from = from_edge ? (backward ? high : low) : clamped(begin[i], size, low, high);
        int64_t to = to_edge ? (backward ? low : high) : clamped(end[i], size, low, high);
        cut->gone[i] = given && mask[4] >> i & 1;
        if (cut->gone[i]) {
            if (from < 0 || from >= size) return "a beginning is out of range";
            cut->step[i] = 1, to = from + 1;
        }
        int64_t span = cut->step[i] > 0 ? to - from : from - to, width = cut->step[i] > 0 ? cut->step[i] : -cut->step[i];
        cut->begin[i] = from;
        cut->count[i] = span > 0 ? (span + width - 1) / width : 0;
        if (cut->count[i] == 0) return "the result would be empty";
    }
    return NULL;
}

static Problem find_cut(const Node *node, Cut *cut) {
    memset(cut, 0, sizeof *cut);
    return node->op->kind ? strided_cut(node, cut) : slice_cut(node, cut);
}

static Problem infer_cut(Node *node) {
    const Tensor *x = node->inputs[0];
    Cut cut;
    int64_t shape[MAX_RANK];
    size_t rank = 0;
    Problem problem = find_cut(node, &cut);
    if (problem) return problem;
    for (size_t i = 0; i < x->rank; i++)
        if (!cut.gone[i]) shape[rank++] = cut.count[i];
    return give_shape(node->outputs[0], x->type, shape, rank);
}

static Problem run_cut(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    Cut cut;
    size_t size[MAX_RANK], count[MAX_RANK];
    Problem problem = find_cut(node, &cut);
    if (problem) return problem;
    sizes_of(x, size);
    for (size_t i = 0; i < x->rank; i++) count[i] = (size_t)cut.count[i];
    slice_run(x->data, size, cut.begin, cut.step, count, x->rank, item_bytes(node), node->outputs[0]->data);
    return NULL;
}

/* --- cells by number --- */

static Problem gather_axis(const Node *node, size_t *axis) {
    int64_t number = 0;
    size_t count;
    if (node->input_count > 2) {
        Problem problem = read_integers(node->inputs[2], &number, 1, &count);
        if (problem) return problem;
    }
    return read_axis_from_start(number, node->inputs[0]->rank, axis);
}

static Problem infer_gather(Node *node) {
    const Tensor *x = node->inputs[0], *indices = node->inputs[1];
    int64_t shape[2 * MAX_RANK];
    size_t axis, rank = 0;
    Problem problem = gather_axis(node, &axis);
    if (problem) return problem;
    if (indices->type != OH_AI_DATATYPE_NUMBERTYPE_INT32) return "the reference runtime takes int32 indices only";
    for (size_t i = 0; i < axis; i++) shape[rank++] = x->shape[i];
    for (size_t i = 0; i < indices->rank; i++) shape[rank++] = indices->shape[i];
    for (size_t i = axis + 1; i < x->rank; i++) shape[rank++] = x->shape[i];
    return give_shape(node->outputs[0], x->type, shape, rank);
}

static Problem run_gather(Node *node, Workers *workers) {
    (void)workers;
    const Tensor *x = node->inputs[0];
    const int32_t *indices = node->inputs[1]->data;
    size_t axis, outer, middle, inner, count = (size_t)tensor_count(node->inputs[1]);
    Problem problem = gather_axis(node, &axis);
    if (problem) return problem;
    split_at(x, axis, &outer, &middle, &inner);
    size_t row = inner * item_bytes(node);
    char *out = node->outputs[0]->data;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < count; i++, out += row) {
            int64_t index = indices[i] < 0 ? indices[i] + (int64_t)middle : indices[i];
            if (index < 0 || index >= (int64_t)middle) return "an index is out of range";
            memcpy(out, (const char *)x->data + (o * middle + (size_t)index) * row, row);
        }
    return NULL;
}

const Operator cutting_operators[] = {
    {69, "Gather", 2, 3, 1, NULL, infer_gather, run_gather, 0},
    {135, "SliceFusion", 3, 3, 1, decode_axes, infer_cut, run_cut, false},
    {145, "Split", 1, 2, 64, decode_split, infer_split, run_split, 0},
    {151, "StridedSlice", 4, 4, 1, decode_strided_slice, infer_cut, run_cut, true},
    {0},
};
