/* The inside of the reference runtime: tensors, operators, and the graph that a .ms file describes. */
#ifndef OHFORGE_GRAPH_H
#define OHFORGE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flatbuffer.h"
#include "kernels.h"
#include "mindspore/model.h"

#ifndef OHFORGE_MAX_TENSOR_BYTES
#define OHFORGE_MAX_TENSOR_BYTES ((size_t)1 << 30)
#endif

/* What went wrong, as a phrase that follows "node NAME (OPERATOR): "; NULL when nothing did. */
typedef const char *Problem;

typedef enum DataOwner { DATA_NONE, DATA_OWNED, DATA_BORROWED } DataOwner;

typedef struct Tensor {
    char *name; /* never NULL */
    OH_AI_DataType type;
    OH_AI_Format format;
    size_t rank;
    int64_t shape[OH_AI_MAX_SHAPE_NUM]; /* -1: not known before the run. */
    void *data;
    size_t capacity; /* Bytes that `data` has room for. */
    DataOwner owner;
    bool of_model; /* Belongs to a model, so users must not destroy it. */
    bool constant; /* Its data is in the file. */
    bool known;    /* Its data is there before the run: constant, or computed from such. */
    int64_t last_use; /* Number of the last node that reads it; INT64_MAX: keep. */
} Tensor;

size_t type_bytes(OH_AI_DataType type); /* 0 for types without a fixed size. */
/* Cells of the tensor; -1 when a dimension is not known or the product is too large. */
int64_t tensor_count(const Tensor *tensor);
size_t tensor_bytes(const Tensor *tensor); /* 0 when not known. */
bool tensor_init(Tensor *tensor, const char *name, size_t name_bytes, OH_AI_DataType type);
bool tensor_reserve(Tensor *tensor); /* Makes sure that there is room for all cells. */
void tensor_drop_data(Tensor *tensor);
void tensor_release(Tensor *tensor); /* Frees what it owns, not the struct. */
static inline const float *floats(const Tensor *tensor) { return tensor->data; }

typedef struct Attributes {
    Activation activation;
    int64_t axis, group;
    int64_t axes[MAX_RANK];
    size_t axis_count;
    int64_t kernel[2], stride[2], dilation[2], pads[4], out_pads[2]; /* pads: top, bottom, left, right */
    int pad_mode, kind;
    bool ceil, whole, transpose_a, transpose_b, keep, flag;
    float x, y;
    int64_t masks[5];
    FbVector list; /* 64-bit numbers */
} Attributes;

enum { PAD_EXPLICIT = 0, PAD_SAME = 1, PAD_VALID = 2 };

struct Operator;

typedef struct Node {
    const struct Operator *op;
    char *name;
    Tensor **inputs, **outputs;
    size_t input_count, output_count;
    Attributes attributes;
    float *packed; /* Weights in the order that the kernels like; NULL until they are known. */
    bool folded;   /* Its outputs were computed when the shapes were worked out. */
} Node;

typedef struct Operator {
    int number;
    const char *name;
    unsigned min_inputs, max_inputs, max_outputs;
    Problem (*decode)(Node *node, FbTable attributes); /* NULL: there are none that matter. */
    Problem (*infer)(Node *node);                      /* Gives the outputs their types and shapes. */
    Problem (*run)(Node *node, Workers *workers);      /* All inputs have data, all outputs have room. */
    int kind;                                          /* Tells operators apart that share functions. */
} Operator;

const Operator *find_operator(int number);

typedef struct Graph {
    uint8_t *bytes; /* The file; constants point into it. */
    Tensor *tensors;
    Node *nodes;
    size_t tensor_count, node_count;
    Tensor **inputs, **outputs;
    size_t input_count, output_count;
    Workers *workers;
} Graph;

/* Takes over `bytes` (made by malloc) in any case. On failure `graph` is empty and `why` says what is wrong. */
bool graph_load(Graph *graph, uint8_t *bytes, size_t size, int threads, char *why, size_t why_bytes);
/* Works out all shapes that the inputs' shapes determine, and all values that depend on constants only. */
bool graph_infer(Graph *graph, char *why, size_t why_bytes);
bool graph_run(Graph *graph, OH_AI_KernelCallBack before, OH_AI_KernelCallBack after, char *why, size_t why_bytes);
void graph_release(Graph *graph);

/* --- for operators --- */

Problem give_shape(Tensor *tensor, OH_AI_DataType type, const int64_t *shape, size_t rank);
Problem same_as(Tensor *tensor, const Tensor *model);
Problem require_float(const Node *node);
/* A known int32 or int64 tensor as numbers; fails when there are more than `limit`. */
Problem read_integers(const Tensor *tensor, int64_t *values, size_t limit, size_t *count);
Problem read_axis(int64_t axis, size_t rank, size_t *out); /* Negative ones count from the end. */
Problem read_axis_from_start(int64_t axis, size_t rank, size_t *out);
Problem read_pair(FbTable attributes, unsigned slot, int64_t pair[2], int64_t least);
Problem decode_axes(Node *node, FbTable attributes); /* A list of axes in slot 0. */
Problem read_fused_activation(Node *node, int number);
void sizes_of(const Tensor *tensor, size_t *sizes);
/* Splits the dimensions at `axis`: the product before it, its size, the product after it. */
void split_at(const Tensor *tensor, size_t axis, size_t *outer, size_t *middle, size_t *inner);
static inline size_t dimension(const Tensor *tensor, size_t axis) { return (size_t)tensor->shape[axis]; }

extern const Operator convolution_operators[], cutting_operators[], elementwise_operators[], rearranging_operators[],
    reducing_operators[];

#endif
