#include <math.h>
#include <string.h>

#include "kernels.h"

/* Sums are taken in double, so that a long row of floats loses nothing. */
typedef struct Total {
    double value;
    size_t count;
} Total;

static void take(ReduceKind kind, Total *total, float x) {
    bool first = total->count++ == 0;
    switch (kind) {
        case REDUCE_MEAN:
        case REDUCE_SUM:
            total->value += x;
            break;
        case REDUCE_MAX:
            total->value = first || x > total->value ? x : total->value;
            break;
        case REDUCE_MIN:
            total->value = first || x < total->value ? x : total->value;
            break;
        case REDUCE_PROD:
            total->value = first ? x : total->value * x;
            break;
        case REDUCE_SUM_SQUARE:
        case REDUCE_L2:
            total->value += (double)x * x;
            break;
        case REDUCE_ABS_SUM:
            total->value += fabs(x);
            break;
    }
}

static float outcome(ReduceKind kind, Total total) {
    if (kind == REDUCE_MEAN && total.count) return (float)(total.value / (double)total.count);
    if (kind == REDUCE_PROD && !total.count) return 1.0f;
    return (float)(kind == REDUCE_L2 ? sqrt(total.value) : total.value);
}

/* The next position in the dimensions that are marked as `wanted`; false after the last. */
static bool step(const size_t *size, const size_t *stride, size_t rank, const bool *marked, bool wanted, size_t *at,
                 size_t *place) {
    for (size_t axis = rank; axis-- > 0;) {
        if (marked[axis] != wanted) continue;
        *place += stride[axis];
        if (++at[axis] < size[axis]) return true;
        *place -= size[axis] * stride[axis];
        at[axis] = 0;
    }
    return false;
}

void reduce_run(ReduceKind kind, const float *in, const size_t *size, size_t rank, const bool *marked,
                float coefficient, float *out) {
    size_t stride[MAX_RANK], at[MAX_RANK] = {0}, place = 0, kept = 1, reduced = 1;
    for (size_t axis = rank, product = 1; axis-- > 0; product *= size[axis]) stride[axis] = product;
    for (size_t axis = 0; axis < rank; axis++) *(marked[axis] ? &reduced : &kept) *= size[axis];
    if (kept == 0) return;
    do {
        Total total = {0};
        size_t inner = place;
        if (reduced) do {
                take(kind, &total, in[inner]);
            } while (step(size, stride, rank, marked, true, at, &inner));
        *out++ = outcome(kind, total) * coefficient;
    } while (step(size, stride, rank, marked, false, at, &place));
}

void softmax_run(const float *in, size_t outer, size_t middle, size_t inner, bool logarithm, float *out) {
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const float *from = in + o * middle * inner + i;
            float *to = out + o * middle * inner + i;
            float largest = -INFINITY;
            double sum = 0;
            for (size_t m = 0; m < middle; m++) largest = from[m * inner] > largest ? from[m * inner] : largest;
            for (size_t m = 0; m < middle; m++) sum += to[m * inner] = expf(from[m * inner] - largest);
            for (size_t m = 0; m < middle; m++)
                to[m * inner] = logarithm ? (float)(from[m * inner] - largest - log(sum)) : (float)(to[m * inner] / sum);
        }
}

void layer_norm_run(const float *in, const float *gamma, const float *beta, size_t outer, size_t inner, float epsilon,
                    float *out) {
    for (size_t o = 0; o < outer; o++, in += inner, out += inner) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < inner; i++) sum += in[i];
        double mean = sum / (double)inner;
        for (size_t i = 0; i < inner; i++) squares += (in[i] - mean) * (in[i] - mean);
        double factor = 1.0 / sqrt(squares / (double)inner + epsilon);
        for (size_t i = 0; i < inner; i++)
            out[i] = (float)((in[i] - mean) * factor) * (gamma ? gamma[i] : 1.0f) + (beta ? beta[i] : 0.0f);
    }
}
