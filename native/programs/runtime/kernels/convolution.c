/* Convolution and matrix product as one thing: a result cell is the sum, over the taps of the kernel, of the
 * products of a run of `depth` input cells with packed weights.
 *
 * Weights are packed in blocks of eight outputs, so that the innermost loop multiplies one input cell with eight
 * weights that lie side by side; four result cells share each load of weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum {
    BLOCK = 8, /* Outputs that are computed side by side: two vectors of four. */
    TILE = 4,  /* Result cells that share a load of weights. */
    CHUNK = 32 /* Result cells that pass over one block of weights while it is in the first-level cache. */
};

typedef float Vector __attribute__((vector_size(16), aligned(4), may_alias));

static size_t blocks_of(size_t outputs) { return (outputs + BLOCK - 1) / BLOCK; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* sums[r] = the bias + the products of all taps for the tile's four cells. */
static void multiply_tile(const float *const *cells, size_t taps, size_t depth, const float *packed,
                          const Vector bias[2], Vector sums[TILE][2]) {
    Vector s00 = bias[0], s01 = bias[1], s10 = bias[0], s11 = bias[1];
    Vector s20 = bias[0], s21 = bias[1], s30 = bias[0], s31 = bias[1];
    for (size_t tap = 0; tap < taps; tap++, cells += TILE) {
        const float *c0 = cells[0], *c1 = cells[1], *c2 = cells[2], *c3 = cells[3];
        for (size_t k = 0; k < depth; k++, packed += BLOCK) {
            Vector w0 = *(const Vector *)packed, w1 = *(const Vector *)(packed + 4);
            s00 += w0 * c0[k];
            s01 += w1 * c0[k];
            s10 += w0 * c1[k];
            s11 += w1 * c1[k];
            s20 += w0 * c2[k];
            s21 += w1 * c2[k];
            s30 += w0 * c3[k];
            s31 += w1 * c3[k];
        }
    }
    sums[0][0] = s00, sums[0][1] = s01, sums[1][0] = s10, sums[1][1] = s11;
    sums[2][0] = s20, sums[2][1] = s21, sums[3][0] = s30, sums[3][1] = s31;
}

typedef struct Product {
    size_t taps, depth, outputs;
    const float *packed, *bias; /* bias may be NULL */
    Activation activation;
    size_t out_stride; /* Floats from one result cell to the next. */
} Product;

/* `cells` holds the tap pointers of `count` result cells: for each tile, for each tap, four pointers. */
static void multiply_chunk(const Product *p, const float *const *cells, size_t count, size_t first_block,
                           size_t end_block, float *out) {
    for (size_t block = first_block; block < end_block; block++) {
        size_t width = smaller(BLOCK, p->outputs - block * BLOCK);
        float start[BLOCK] = {0};
        if (p->bias) memcpy(start, p->bias + block * BLOCK, width * sizeof(float));
        Vector bias[2] = {*(Vector *)start, *(Vector *)(start + 4)};
        const float *weights = p->packed + block * p->taps * p->depth * BLOCK;
        for (size_t cell = 0; cell < count; cell += TILE) {
            Vector sums[TILE][2];
            multiply_tile(cells + cell * p->taps, p->taps, p->depth, weights, bias, sums);
            for (size_t row = 0; row < smaller(TILE, count - cell); row++)
                memcpy(out + (cell + row) * p->out_stride + block * BLOCK, sums[row], width * sizeof(float));
        }
    }
    size_t first = first_block * BLOCK, width = smaller(end_block * BLOCK, p->outputs) - first;
    for (size_t cell = 0; cell < count; cell++) {
        float *place = out + cell * p->out_stride + first;
        activate(place, place, width, p->activation);
    }
}

size_t matrix_packed_floats(size_t depth, size_t columns) { return blocks_of(columns) * depth * BLOCK; }

void matrix_pack(const float *b, size_t depth, size_t columns, size_t depth_stride, size_t column_stride,
                 float *packed) {
    for (size_t block = 0; block < blocks_of(columns); block++)
        for (size_t k = 0; k < depth; k++)
            for (size_t lane = 0; lane < BLOCK; lane++) {
                size_t column = block * BLOCK + lane;
                *packed++ = column < columns ? b[k * depth_stride + column * column_stride] : 0.0f;
            }
}

typedef struct MatrixJob {
    Product product;
    const float *a;
    float *out;
    size_t rows, row_stride, parts, blocks_a_part;
} MatrixJob;

static void run_matrix(void *context, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const MatrixJob *job = context;
    const float *cells[CHUNK];
    for (size_t item = begin; item < end; item++) {
        size_t row = item / job->parts * CHUNK, count = smaller(CHUNK, job->rows - row);
        for (size_t i = 0; i < CHUNK; i++) cells[i] = job->a + (row + smaller(i, count - 1)) * job->row_stride;
        size_t first = item % job->parts * job->blocks_a_part;
        multiply_chunk(&job->product, cells, count, first,
                       smaller(first + job->blocks_a_part, blocks_of(job->product.outputs)),
                       job->out + row * job->product.out_stride);
    }
}

bool matrix_run(const float *a, size_t rows, size_t row_stride, size_t depth, const float *packed, size_t columns,
                const float *bias, Activation activation, float *out, Workers *workers) {
    MatrixJob job = {.product = {1, depth, columns, packed, bias, activation, columns},
                     .a = a, .out = out, .rows = rows, .row_stride = row_stride, .parts = 1};
    size_t blocks = blocks_of(columns), chunks = (rows + CHUNK - 1) / CHUNK, threads = (size_t)workers_count(workers);
    if (blocks == 0 || rows == 0) return true;
    if (chunks < threads) job.parts = smaller(blocks, threads); /* Few rows: share out the columns as well. */
    job.blocks_a_part = (blocks + job.parts - 1) / job.parts;
    job.parts = (blocks + job.blocks_a_part - 1) / job.blocks_a_part;
    workers_run(workers, chunks * job.parts, 1, run_matrix, &job);
    return true;
}

void same_padding(size_t size, size_t kernel, size_t stride, size_t dilation, size_t *before, size_t *after) {
    size_t results = (size + stride - 1) / stride;
    size_t covered = (results - 1) * stride + (kernel - 1) * dilation + 1;
    size_t total = covered > size ? covered - size : 0;
    *before = total / 2;
    *after = total - total / 2;
}

static bool is_depthwise(const ConvShape *s) {
    return s->group == s->in_channels && s->group == s->out_channels && s->group > 1;
}

static size_t taps_of(const ConvShape *s) { return s->kernel_height * s->kernel_width; }

size_t conv_packed_floats(const ConvShape *s) {
    if (is_depthwise(s)) return taps_of(s) * s->out_channels;
    size_t depth = s->in_channels / s->group;
    return s->group * matrix_packed_floats(taps_of(s) * depth, s->out_channels / s->group);
}

void conv_pack(const ConvShape *s, const float *weight, float *packed) {
    size_t taps = taps_of(s);
    if (is_depthwise(s)) {
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t channel = 0; channel < s->out_channels; channel++) *packed++ = weight[channel * taps + tap];
        return;
    }
    size_t depth = taps * (s->in_channels / s->group), outputs = s->out_channels / s->group;
    for (size_t group = 0; group < s->group; group++) {
        matrix_pack(weight + group * outputs * depth, depth, outputs, 1, depth, packed);
        packed += matrix_packed_floats(depth, outputs);
    }
}

typedef struct ConvJob {
    const ConvShape *shape;
    const float *in, *packed, *bias;
    float *out;
    Activation activation;
} ConvJob;

/* The input cell that a tap sees from a result cell; `nothing` where it looks into the padding. */
static const float *seen_cell(const ConvShape *s, const float *image, size_t y, size_t x, size_t tap,
                              const float *nothing) {
    size_t row = y * s->stride_height + tap / s->kernel_width * s->dilation_height;
    size_t column = x * s->stride_width + tap % s->kernel_width * s->dilation_width;
    bool inside = row >= s->pad_top && row - s->pad_top < s->in_height && column >= s->pad_left &&
                  column - s->pad_left < s->in_width;
    if (!inside) return nothing;
    return image + ((row - s->pad_top) * s->in_width + (column - s->pad_left)) * s->in_channels;
}

static void run_chunks(void *context, size_t begin, size_t end, void *scratch) {
    const ConvJob *job = context;
    const ConvShape *s = job->shape;
    size_t taps = taps_of(s), depth = s->in_channels / s->group, outputs = s->out_channels / s->group;
    size_t plane = s->out_height * s->out_width, chunks = (plane + CHUNK - 1) / CHUNK;
    const float **cells = scratch;
    float *nothing = (float *)(cells + CHUNK * taps);
    memset(nothing, 0, s->in_channels * sizeof(float));
    for (size_t item = begin; item < end; item++) {
        size_t group = item % s->group, chunk = item / s->group % chunks, image = item / s->group / chunks;
        size_t first = chunk * CHUNK, count = smaller(CHUNK, plane - first);
        const float *start = job->in + image * s->in_height * s->in_width * s->in_channels + group * depth;
        for (size_t cell = 0; cell < (count + TILE - 1) / TILE * TILE; cell++) {
            size_t at = first + smaller(cell, count - 1);
            for (size_t tap = 0; tap < taps; tap++)
                cells[cell / TILE * TILE * taps + tap * TILE + cell % TILE] =
                    seen_cell(s, start, at / s->out_width, at % s->out_width, tap, nothing);
        }
        Product product = {taps, depth, outputs,
                           job->packed + group * matrix_packed_floats(taps * depth, outputs),
                           job->bias ? job->bias + group * outputs : NULL,
                           job->activation, s->out_channels};
        multiply_chunk(&product, cells, count, 0, blocks_of(outputs),
                       job->out + (image * plane + first) * s->out_channels + group * outputs);
    }
}

static void add_tap(const float *restrict in, const float *restrict weight, float *restrict out, size_t count) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        *(Vector *)(out + i) += *(const Vector *)(in + i) * *(const Vector *)(weight + i);
    for (; i < count; i++) out[i] += in[i] * weight[i];
}

static void run_depthwise_rows(void *context, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const ConvJob *job = context;
    const ConvShape *s = job->shape;
    size_t channels = s->out_channels;
    for (size_t item = begin; item < end; item++) {
        size_t y = item % s->out_height, image = item / s->out_height;
        const float *start = job->in + image * s->in_height * s->in_width * channels;
        float *out = job->out + item * s->out_width * channels;
        for (size_t x = 0; x < s->out_width; x++, out += channels) {
            if (job->bias)
                memcpy(out, job->bias, channels * sizeof(float));
            else
                memset(out, 0, channels * sizeof(float));
            for (size_t tap = 0; tap < taps_of(s); tap++) {
                const float *cell = seen_cell(s, start, y, x, tap, NULL);
                if (cell) add_tap(cell, job->packed + tap * channels, out, channels);
            }
            activate(out, out, channels, job->activation);
        }
    }
}

bool conv_run(const ConvShape *s, const float *in, const float *packed, const float *bias, Activation activation,
              float *out, Workers *workers) {
    ConvJob job = {s, in, packed, bias, out, activation};
    if (is_depthwise(s)) {
        workers_run(workers, s->batch * s->out_height, 1, run_depthwise_rows, &job);
        return true;
    }
    if (!workers_reserve(workers, CHUNK * taps_of(s) * sizeof(float *) + s->in_channels * sizeof(float))) return false;
    size_t chunks = (s->out_height * s->out_width + CHUNK - 1) / CHUNK;
    workers_run(workers, s->batch * chunks * s->group, 1, run_chunks, &job);
    return true;
}

void conv_transpose_run(const ConvShape *s, const float *in, const float *weight, const float *bias,
                        Activation activation, float *out) {
    size_t per_in = s->in_channels / s->group, per_out = s->out_channels / s->group, taps = taps_of(s);
    size_t cells = s->batch * s->out_height * s->out_width;
    for (size_t cell = 0; cell < cells; cell++)
        for (size_t channel = 0; channel < s->out_channels; channel++)
            out[cell * s->out_channels + channel] = bias ? bias[channel] : 0.0f;
    for (size_t at = 0; at < s->batch * s->in_height * s->in_width; at++) {
        size_t x = at % s->in_width, y = at / s->in_width % s->in_height, image = at / s->in_width / s->in_height;
        for (size_t tap = 0; tap < taps; tap++) {
            size_t row = y * s->stride_height + tap / s->kernel_width * s->dilation_height;
            size_t column = x * s->stride_width + tap % s->kernel_width * s->dilation_width;
            if (row < s->pad_top || row - s->pad_top >= s->out_height || column < s->pad_left ||
                column - s->pad_left >= s->out_width)
                continue;
            size_t place = (image * s->out_height + row - s->pad_top) * s->out_width + column - s->pad_left;
            for (size_t channel = 0; channel < s->in_channels; channel++) {
                float value = in[at * s->in_channels + channel];
                const float *w = weight + (channel * taps + tap) * per_out;
                float *result = out + place * s->out_channels + channel / per_in * per_out;
                for (size_t o = 0; o < per_out; o++) result[o] += value * w[o];
            }
        }
    }
    activate(out, out, cells * s->out_channels, activation);
}
