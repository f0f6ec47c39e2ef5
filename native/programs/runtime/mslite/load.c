/* From the bytes of a .ms file to a graph. Nothing in the file is believed; what does not add up refuses the load. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { MAX_ITEMS = 200000, TEXT_LIMIT = 120 };

/* Slots of the tables, by position in the schema. */
enum { GRAPH_INPUTS = 3, GRAPH_OUTPUTS = 4, GRAPH_NODES = 6, GRAPH_TENSORS = 7, GRAPH_SUBGRAPHS = 8, GRAPH_OBFUSCATED = 9 };
enum { TENSOR_TYPE = 1, TENSOR_DIMS = 2, TENSOR_FORMAT = 3, TENSOR_DATA = 6, TENSOR_QUANTISATION = 7, TENSOR_NAME = 9,
       TENSOR_HUFFMAN = 10, TENSOR_COMPRESSION = 11, TENSOR_EXTERNAL = 12 };
enum { QUANT_SCALE = 0, QUANT_ZERO = 1, QUANT_FACTOR = 7, QUANT_OFFSET = 8 };
enum { NODE_NAME = 0, NODE_PRIMITIVE = 2, NODE_INPUTS = 3, NODE_OUTPUTS = 4 };

typedef struct Loader {
    Graph *graph;
    FbBuffer buffer;
    char *why;
    size_t why_bytes;
} Loader;

__attribute__((format(printf, 2, 3))) static bool refuse(Loader *loader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(loader->why, loader->why_bytes, format, arguments);
    va_end(arguments);
    return false;
}

const Operator *find_operator(int number) {
    static const Operator *const tables[] = {convolution_operators, cutting_operators, elementwise_operators,
                                             rearranging_operators, reducing_operators};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const Operator *op = tables[i]; op->name; op++)
            if (op->number == number) return op;
    return NULL;
}

/* Constants stay in the file's bytes where they lie well; half precision becomes float. */
static bool load_data(Loader *loader, Tensor *tensor, FbVector data, size_t index) {
    size_t bytes = tensor_bytes(tensor);
    if (tensor_count(tensor) < 0) return refuse(loader, "constant tensor %zu has no definite shape", index);
    if (data.count < bytes) return refuse(loader, "constant tensor %zu has less data than its shape needs", index);
    if (type_bytes(tensor->type) == 0) return refuse(loader, "constant tensor %zu has a data type without cells", index);
    tensor->constant = tensor->known = true;
    if (tensor->type == OH_AI_DATATYPE_NUMBERTYPE_FLOAT16 || (uintptr_t)data.items % 4 != 0) {
        bool half = tensor->type == OH_AI_DATATYPE_NUMBERTYPE_FLOAT16;
        if (half) tensor->type = OH_AI_DATATYPE_NUMBERTYPE_FLOAT32;
        if (bytes == 0) return true;
        if (!tensor_reserve(tensor)) return refuse(loader, "there is not enough memory for the weights");
        uint16_t half_cell;
        for (size_t i = 0; half && i < bytes / 2; i++) {
            memcpy(&half_cell, data.items + 2 * i, 2);
            half_to_float(&half_cell, (float *)tensor->data + i, 1);
        }
        if (!half) memcpy(tensor->data, data.items, bytes);
        return true;
    }
    tensor->data = (void *)(uintptr_t)data.items;
    tensor->capacity = bytes;
    tensor->owner = DATA_BORROWED;
    return true;
}

static bool load_tensor(Loader *loader, FbTable table, size_t index) {
    Tensor *tensor = &loader->graph->tensors[index];
    FbVector name = fb_vector(table, TENSOR_NAME, 1), dims = fb_vector(table, TENSOR_DIMS, 4);
    FbVector data = fb_vector(table, TENSOR_DATA, 1);
    if (!tensor_init(tensor, (const char *)name.items, name.count, (OH_AI_DataType)fb_i32(table, TENSOR_TYPE, 0)))
        return refuse(loader, "there is not enough memory for the graph");
    tensor->of_model = true;
    tensor->format = (OH_AI_Format)fb_i32(table, TENSOR_FORMAT, 0);
    if (dims.count > MAX_RANK) return refuse(loader, "tensor %zu has %zu dimensions", index, dims.count);
    tensor->rank = dims.count;
    for (size_t i = 0; i < dims.count; i++) {
        tensor->shape[i] = (int32_t)fb_u32_item(dims, i);
        if (tensor->shape[i] < -1) return refuse(loader, "tensor %zu has a negative dimension", index);
    }
    if (fb_bool(table, TENSOR_HUFFMAN, false) || fb_i32(table, TENSOR_COMPRESSION, 0) != 0)
        return refuse(loader, "tensor %zu is compressed, which the reference runtime cannot unpack", index);
    if (fb_vector(table, TENSOR_EXTERNAL, 4).count)
        return refuse(loader, "tensor %zu is in another file, which the reference runtime does not read", index);
    return data.count ? load_data(loader, tensor, data, index) : true;
}

/* A vector of tensor numbers as pointers. */
static bool load_references(Loader *loader, FbVector numbers, Tensor ***list, size_t *count, const char *what) {
    Graph *graph = loader->graph;
    *count = 0;
    if (numbers.count > MAX_ITEMS) return refuse(loader, "there are too many %s", what);
    *list = calloc(numbers.count + 1, sizeof **list);
    if (!*list) return refuse(loader, "there is not enough memory for the graph");
    for (size_t i = 0; i < numbers.count; i++) {
        uint32_t number = fb_u32_item(numbers, i);
        if (number >= graph->tensor_count)
            return refuse(loader, "one of the %s is tensor %u, but there are %zu", what, number, graph->tensor_count);
        (*list)[i] = &graph->tensors[number];
    }
    *count = numbers.count;
    return true;
}

static bool load_node(Loader *loader, FbTable table, size_t index) {
    Node *node = &loader->graph->nodes[index];
    FbVector name = fb_vector(table, NODE_NAME, 1);
    int shown = (int)(name.count < TEXT_LIMIT ? name.count : TEXT_LIMIT);
    node->name = malloc(name.count + 1);
    if (!node->name) return refuse(loader, "there is not enough memory for the graph");
    if (name.count) memcpy(node->name, name.items, name.count);
    node->name[name.count] = '\0';
    FbTable primitive = fb_table(table, NODE_PRIMITIVE), attributes = fb_table(primitive, 1);
    int number = (uint8_t)fb_i8(primitive, 0, 0);
    if (!attributes.at) return refuse(loader, "node %zu (%.*s) has no attributes", index, shown, node->name);
    node->op = find_operator(number);
    if (!node->op)
        return refuse(loader, "node %zu (%.*s): the reference runtime lacks operator %d", index, shown, node->name, number);
    if (!load_references(loader, fb_vector(table, NODE_INPUTS, 4), &node->inputs, &node->input_count, "inputs of a node") ||
        !load_references(loader, fb_vector(table, NODE_OUTPUTS, 4), &node->outputs, &node->output_count,
                         "outputs of a node"))
        return false;
    if (node->input_count < node->op->min_inputs || node->input_count > node->op->max_inputs || node->output_count < 1 ||
        node->output_count > node->op->max_outputs)
        return refuse(loader, "node %zu (%.*s, %s) has %zu inputs and %zu outputs, which does not fit the operator", index,
                      shown, node->name, node->op->name, node->input_count, node->output_count);
    Problem problem = node->op->decode ? node->op->decode(node, attributes) : NULL;
    if (problem) return refuse(loader, "node %zu (%.*s, %s): %s", index, shown, node->name, node->op->name, problem);
    return true;
}

/* --- weights in integers --- */

/* The dimension with a scale for each of its cells: MindSpore Lite has it fixed by the operator that reads the weights. */
static size_t scaled_axis(const Node *node, size_t input) {
    size_t rank = node->inputs[input]->rank;
    bool rows = input == 0 ? !node->attributes.transpose_a : node->attributes.transpose_b;
    if (rank == 0) return 0;
    switch (node->op->number) {
        case 36: /* Conv2dTransposeFusion */
            return rank - 1;
        case 89: /* MatMulFusion */
            return rows && rank > 1 ? rank - 2 : rank - 1;
        default:
            return 0;
    }
}

static int integer_at(const Tensor *tensor, size_t i) {
    int16_t wide;
    if (tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT8) return ((const int8_t *)tensor->data)[i];
    memcpy(&wide, (const char *)tensor->data + 2 * i, sizeof wide);
    return wide;
}

/* Each `inner` cells on end have a scale in common. */
static void fill_floats(const Tensor *from, Tensor *to, FbTable owner, FbVector quant, size_t inner) {
    size_t cells = (size_t)tensor_count(from);
    for (size_t row = 0, cell = 0; cell < cells; row++) {
        FbTable one = fb_table_item(owner, quant, row % quant.count);
        double scale = fb_f64(one, QUANT_SCALE, 1.0), factor = fb_f32(one, QUANT_FACTOR, 1.0f);
        double offset = fb_f32(one, QUANT_OFFSET, 0.0f);
        double zero = fb_i32(one, QUANT_ZERO, 0);
        for (size_t i = 0; i < inner && cell < cells; i++, cell++)
            ((float *)to->data)[cell] = (float)((integer_at(from, cell) - zero) * scale * factor + offset);
    }
}

/* Weights in int8 or int16 become float, as MindSpore Lite makes them when it loads a model with such weights only. */
static bool widen(Loader *loader, const Node *node, size_t input, FbTable table) {
    Tensor *tensor = node->inputs[input];
    size_t inner = (size_t)tensor_count(tensor), axis = scaled_axis(node, input);
    FbVector quant = fb_vector(table, TENSOR_QUANTISATION, 4);
    if (!quant.count) return true;
    if (quant.count > 1) {
        if (axis >= tensor->rank || dimension(tensor, axis) != quant.count)
            return refuse(loader, "node %.100s (%s): weights with %zu scales, which do not fit their shape", node->name,
                          node->op->name, quant.count);
        inner = 1;
        for (size_t i = axis + 1; i < tensor->rank; i++) inner *= dimension(tensor, i);
    }
    Tensor narrow = *tensor;
    tensor->type = OH_AI_DATATYPE_NUMBERTYPE_FLOAT32;
    tensor->data = NULL, tensor->capacity = 0, tensor->owner = DATA_NONE;
    bool good = inner == 0 || tensor_reserve(tensor);
    if (good && inner) fill_floats(&narrow, tensor, table, quant, inner);
    tensor_drop_data(&narrow);
    return good ? true : refuse(loader, "there is not enough memory for the weights");
}

static bool widen_weights(Loader *loader, FbTable root, FbVector tensors) {
    for (size_t n = 0; n < loader->graph->node_count; n++) {
        const Node *node = &loader->graph->nodes[n];
        for (size_t i = 0; i < node->input_count; i++) {
            const Tensor *tensor = node->inputs[i];
            bool narrow = tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT8 || tensor->type == OH_AI_DATATYPE_NUMBERTYPE_INT16;
            if (!tensor->constant || !narrow) continue;
            FbTable table = fb_table_item(root, tensors, (size_t)(tensor - loader->graph->tensors));
            if (!widen(loader, node, i, table)) return false;
        }
    }
    return true;
}

/* Every tensor is read only after it was filled, and filled by one node only; last_use says when it is free again. */
static bool check_order(Loader *loader) {
    Graph *graph = loader->graph;
    bool *filled = calloc(graph->tensor_count, sizeof *filled);
    if (!filled) return refuse(loader, "there is not enough memory for the graph");
    bool good = true;
    for (size_t i = 0; i < graph->tensor_count; i++) filled[i] = graph->tensors[i].constant;
    for (size_t i = 0; good && i < graph->input_count; i++) {
        size_t at = (size_t)(graph->inputs[i] - graph->tensors);
        if (filled[at]) good = refuse(loader, "an input of the model is a constant or is listed twice");
        filled[at] = true;
        graph->inputs[i]->last_use = INT64_MAX;
    }
    for (size_t n = 0; good && n < graph->node_count; n++) {
        Node *node = &graph->nodes[n];
        for (size_t i = 0; good && i < node->input_count; i++) {
            if (!filled[node->inputs[i] - graph->tensors])
                good = refuse(loader, "node %zu (%.100s) reads a tensor before anything has filled it", n, node->name);
            if (node->inputs[i]->last_use != INT64_MAX) node->inputs[i]->last_use = (int64_t)n;
        }
        for (size_t i = 0; good && i < node->output_count; i++) {
            size_t at = (size_t)(node->outputs[i] - graph->tensors);
            if (filled[at]) good = refuse(loader, "node %zu (%.100s) fills a tensor that is filled already", n, node->name);
            filled[at] = true;
        }
    }
    for (size_t i = 0; good && i < graph->output_count; i++) {
        size_t at = (size_t)(graph->outputs[i] - graph->tensors);
        if (!filled[at]) good = refuse(loader, "nothing computes output %zu of the model", i);
        graph->outputs[i]->last_use = INT64_MAX;
    }
    free(filled);
    return good;
}

static bool load_parts(Loader *loader) {
    Graph *graph = loader->graph;
    FbTable root = fb_root(&loader->buffer);
    FbVector tensors = fb_vector(root, GRAPH_TENSORS, 4), nodes = fb_vector(root, GRAPH_NODES, 4);
    FbVector subgraphs = fb_vector(root, GRAPH_SUBGRAPHS, 4);
    FbVector inputs = fb_vector(root, GRAPH_INPUTS, 4), outputs = fb_vector(root, GRAPH_OUTPUTS, 4);
    if (fb_bool(root, GRAPH_OBFUSCATED, false)) return refuse(loader, "the model is obfuscated");
    if (subgraphs.count > 1) return refuse(loader, "the reference runtime lacks models of several sub-graphs");
    if (subgraphs.count == 1) {
        FbTable subgraph = fb_table_item(root, subgraphs, 0);
        /* All is looked at, although little is used: a file that was cut short shows it here. */
        for (unsigned slot = 0; slot < 5; slot++) fb_vector(subgraph, slot, slot ? 4 : 1);
        if (!inputs.count && !outputs.count) inputs = fb_vector(subgraph, 1, 4), outputs = fb_vector(subgraph, 2, 4);
    }
    if (tensors.count > MAX_ITEMS || nodes.count > MAX_ITEMS) return refuse(loader, "there are too many tensors or nodes");
    if (!tensors.count || !nodes.count || !outputs.count) return refuse(loader, "tensors, nodes or outputs are missing");
    graph->tensors = calloc(tensors.count, sizeof *graph->tensors);
    graph->nodes = calloc(nodes.count, sizeof *graph->nodes);
    if (!graph->tensors || !graph->nodes) return refuse(loader, "there is not enough memory for the graph");
    for (; graph->tensor_count < tensors.count; graph->tensor_count++)
        if (!load_tensor(loader, fb_table_item(root, tensors, graph->tensor_count), graph->tensor_count)) {
            graph->tensor_count++; /* It is partly made and must be released too. */
            return false;
        }
    for (; graph->node_count < nodes.count; graph->node_count++)
        if (!load_node(loader, fb_table_item(root, nodes, graph->node_count), graph->node_count)) {
            graph->node_count++;
            return false;
        }
    if (!load_references(loader, inputs, &graph->inputs, &graph->input_count, "model's inputs") ||
        !load_references(loader, outputs, &graph->outputs, &graph->output_count, "model's outputs"))
        return false;
    if (!loader->buffer.damaged && !widen_weights(loader, root, tensors)) return false;
    if (loader->buffer.damaged) return refuse(loader, "the file is cut short or damaged");
    return check_order(loader);
}

bool graph_load(Graph *graph, uint8_t *bytes, size_t size, int threads, char *why, size_t why_bytes) {
    memset(graph, 0, sizeof *graph);
    graph->bytes = bytes;
    Loader loader = {.graph = graph, .buffer = {.data = bytes, .size = size}, .why = why, .why_bytes = why_bytes};
    bool good = false;
    if (size < 8)
        refuse(&loader, "the file has only %zu bytes", size);
    else if (size > INT32_MAX)
        refuse(&loader, "the file is larger than 2 GB");
    else if (memcmp(bytes + 4, "MSL2", 4) != 0)
        refuse(&loader, "the file is not a .ms file (identifier MSL2 is missing)");
    else
        good = load_parts(&loader);
    if (good && !(graph->workers = workers_create(threads))) good = refuse(&loader, "there is not enough memory");
    if (good) good = graph_infer(graph, why, why_bytes);
    if (!good) graph_release(graph);
    return good;
}

void graph_release(Graph *graph) {
    for (size_t i = 0; i < graph->tensor_count; i++) tensor_release(&graph->tensors[i]);
    for (size_t i = 0; i < graph->node_count; i++) {
        free(graph->nodes[i].name);
        free(graph->nodes[i].inputs);
        free(graph->nodes[i].outputs);
        free(graph->nodes[i].packed);
    }
    workers_destroy(graph->workers);
    free(graph->inputs);
    free(graph->outputs);
    free(graph->tensors);
    free(graph->nodes);
    free(graph->bytes);
    memset(graph, 0, sizeof *graph);
}
