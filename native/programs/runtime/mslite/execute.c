/* Working out shapes, and running the nodes in the order of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { FOLD_BYTES = 1 << 16 }; /* What is computed beforehand are shapes and the like, not images. */

static bool report(const Node *node, Problem problem, char *why, size_t why_bytes) {
    snprintf(why, why_bytes, "node %.100s (%s): %s", node->name, node->op->name, problem);
    return false;
}

static bool shape_known(const Tensor *tensor) {
    for (size_t axis = 0; axis < tensor->rank; axis++)
        if (tensor->shape[axis] < 0) return false;
    return true;
}

static bool is_shape_operator(const Node *node) { return strcmp(node->op->name, "Shape") == 0; }

static bool can_fold(const Node *node) {
    for (size_t i = 0; i < node->output_count; i++)
        if (tensor_bytes(node->outputs[i]) > FOLD_BYTES) return false;
    if (is_shape_operator(node)) return true;
    for (size_t i = 0; i < node->input_count; i++)
        if (!node->inputs[i]->known) return false;
    return true;
}

static Problem check_inputs(const Node *node) {
    for (size_t i = 0; i < node->input_count; i++) {
        const Tensor *tensor = node->inputs[i];
        bool list = tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT32 || tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT64;
        if (tensor_count(tensor) == 0 && !(list && i > 0)) return "an input is empty";
        /* Also one whose number of cells cannot be said in 64 bits. */
        if (tensor_count(tensor) < 0 || tensor_bytes(tensor) > OHFORGE_MAX_TENSOR_BYTES) return "an input is too large";
    }
    return NULL;
}

static void forget_shape(Tensor *tensor) {
    tensor->rank = 1;
    tensor->shape[0] = -1;
}

static Problem infer_node(Node *node, Workers *workers) {
    bool definite = true;
    node->folded = false;
    for (size_t i = 0; i < node->input_count; i++) definite = definite && shape_known(node->inputs[i]);
    for (size_t i = 0; i < node->output_count; i++) {
        node->outputs[i]->known = false;
        if (!definite) forget_shape(node->outputs[i]);
    }
    if (!definite) return NULL;
    Problem problem = check_inputs(node);
    if (!problem) problem = node->op->infer(node);
    if (problem || !can_fold(node)) return problem;
    for (size_t i = 0; i < node->output_count; i++)
        if (!tensor_reserve(node->outputs[i])) return "there is not enough memory for the result";
    problem = node->op->run(node, workers);
    for (size_t i = 0; i < node->output_count; i++) node->outputs[i]->known = true;
    node->folded = true;
    return problem;
}

bool graph_infer(Graph *graph, char *why, size_t why_bytes) {
    for (size_t i = 0; i < graph->node_count; i++) {
        Problem problem = infer_node(&graph->nodes[i], graph->workers);
        if (problem) return report(&graph->nodes[i], problem, why, why_bytes);
    }
    return true;
}

static bool told_to_stop(OH_AI_KernelCallBack call, const Node *node) {
    OH_AI_TensorHandleArray in = {node->input_count, (OH_AI_TensorHandle *)node->inputs};
    OH_AI_TensorHandleArray out = {node->output_count, (OH_AI_TensorHandle *)node->outputs};
    OH_AI_CallBackParam what = {node->name, (char *)(uintptr_t)node->op->name};
    return !call(in, out, what);
}

/* Gives a result room: that of a tensor which nobody needs any more, or new memory. */
static bool find_room(Graph *graph, Tensor *tensor, size_t now) {
    size_t bytes = tensor_bytes(tensor);
    if (tensor->data && tensor->capacity >= bytes) return true;
    Tensor *best = NULL;
    for (size_t n = 0; n < now; n++)
        for (size_t i = 0; i < graph->nodes[n].output_count; i++) {
            Tensor *other = graph->nodes[n].outputs[i];
            bool free_now = other->last_use < (int64_t)now && !other->known && other->owner == DATA_OWNED;
            if (free_now && other->capacity >= bytes && (!best || other->capacity < best->capacity)) best = other;
        }
    if (!best || best->capacity / 4 > bytes) return tensor_reserve(tensor);
    tensor_drop_data(tensor);
    tensor->data = best->data, tensor->capacity = best->capacity, tensor->owner = DATA_OWNED;
    best->data = NULL, best->capacity = 0, best->owner = DATA_NONE;
    return true;
}

bool graph_run(Graph *graph, OH_AI_KernelCallBack before, OH_AI_KernelCallBack after, char *why, size_t why_bytes) {
    for (size_t n = 0; n < graph->node_count; n++) {
        Node *node = &graph->nodes[n];
        if (node->folded) continue;
        for (size_t i = 0; i < node->output_count; i++)
            if (!find_room(graph, node->outputs[i], n))
                return report(node, "there is not enough memory for the result", why, why_bytes);
        if (before && told_to_stop(before, node)) return report(node, "the callback asked to stop", why, why_bytes);
        Problem problem = node->op->run(node, graph->workers);
        if (problem) return report(node, problem, why, why_bytes);
        if (after && told_to_stop(after, node)) return report(node, "the callback asked to stop", why, why_bytes);
    }
    return true;
}
