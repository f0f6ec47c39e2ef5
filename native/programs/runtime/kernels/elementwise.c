#include <math.h>
#include <string.h>

#include "kernels.h"

bool activation_known(int kind) {
    switch (kind) {
        case ACTIVATE_NONE:
        case ACTIVATE_RELU:
        case ACTIVATE_SIGMOID:
        case ACTIVATE_RELU6:
        case ACTIVATE_ELU:
        case ACTIVATE_LEAKY_RELU:
        case ACTIVATE_TANH:
        case ACTIVATE_HSWISH:
        case ACTIVATE_HSIGMOID:
        case ACTIVATE_SWISH:
        case ACTIVATE_GELU:
            return true;
        default:
            return false;
    }
}

static float clamp(float x, float low, float high) {
    /* Written so that NaN stays NaN. */
    return x < low ? low : x > high ? high : x;
}

static float gelu(float x, bool approximate) {
    if (approximate) return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
}

/* `in` and `out` may be the same array. */
void activate(const float *in, float *out, size_t count, Activation a) {
    switch (a.kind) {
        case ACTIVATE_NONE:
            if (in != out) memcpy(out, in, count * sizeof(float));
            return;
        case ACTIVATE_RELU:
            for (size_t i = 0; i < count; i++) out[i] = in[i] < 0.0f ? 0.0f : in[i];
            return;
        case ACTIVATE_RELU6:
            for (size_t i = 0; i < count; i++) out[i] = clamp(in[i], 0.0f, 6.0f);
            return;
        case ACTIVATE_SIGMOID:
            for (size_t i = 0; i < count; i++) out[i] = 1.0f / (1.0f + expf(-in[i]));
            return;
        case ACTIVATE_ELU:
            for (size_t i = 0; i < count; i++) out[i] = in[i] > 0.0f ? in[i] : a.alpha * expm1f(in[i]);
            return;
        case ACTIVATE_LEAKY_RELU:
            for (size_t i = 0; i < count; i++) out[i] = in[i] > 0.0f ? in[i] : a.alpha * in[i];
            return;
        case ACTIVATE_TANH:
            for (size_t i = 0; i < count; i++) out[i] = tanhf(in[i]);
            return;
        case ACTIVATE_HSWISH:
            for (size_t i = 0; i < count; i++) out[i] = in[i] * clamp(in[i] + 3.0f, 0.0f, 6.0f) / 6.0f;
            return;
        case ACTIVATE_HSIGMOID:
            for (size_t i = 0; i < count; i++) out[i] = clamp(in[i] + 3.0f, 0.0f, 6.0f) / 6.0f;
            return;
        case ACTIVATE_SWISH:
            for (size_t i = 0; i < count; i++) out[i] = in[i] / (1.0f + expf(-in[i]));
            return;
        case ACTIVATE_GELU:
            for (size_t i = 0; i < count; i++) out[i] = gelu(in[i], a.approximate);
            return;
    }
}

bool broadcast_plan(const int64_t *a, size_t rank_a, const int64_t *b, size_t rank_b, Broadcast *plan) {
    plan->rank = rank_a > rank_b ? rank_a : rank_b;
    size_t step_a = 1, step_b = 1;
    for (size_t i = 0; i < plan->rank; i++) {
        size_t axis = plan->rank - 1 - i;
        size_t size_a = i < rank_a ? (size_t)a[rank_a - 1 - i] : 1, size_b = i < rank_b ? (size_t)b[rank_b - 1 - i] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1) return false;
        plan->size[axis] = size_a == 1 ? size_b : size_a;
        plan->stride_a[axis] = size_a == 1 ? 0 : step_a;
        plan->stride_b[axis] = size_b == 1 ? 0 : step_b;
        step_a *= size_a;
        step_b *= size_b;
    }
    return true;
}

static float combine(BinaryKind kind, float x, float y) {
    switch (kind) {
        case BINARY_ADD:
            return x + y;
        case BINARY_SUB:
            return x - y;
        case BINARY_MUL:
            return x * y;
        case BINARY_DIV:
            return x / y;
        case BINARY_MAX:
            return x > y ? x : y;
        case BINARY_MIN:
            return x < y ? x : y;
        case BINARY_POW:
            return powf(x, y);
        case BINARY_SQUARED_DIFFERENCE:
            return (x - y) * (x - y);
    }
    return 0.0f;
}

/* A row whose strides are 0 or 1; one loop for each kind, so that the compiler can use vectors. */
static void combine_row(BinaryKind kind, const float *a, size_t step_a, const float *b, size_t step_b, float *out,
                        size_t count) {
#define ROW(expression)                                      \
    for (size_t i = 0; i < count; i++) {                     \
        float x = a[i * step_a], y = b[i * step_b];          \
        out[i] = (expression);                               \
    }                                                        \
    return
    switch (kind) {
        case BINARY_ADD:
            ROW(x + y);
        case BINARY_SUB:
            ROW(x - y);
        case BINARY_MUL:
            ROW(x * y);
        default:
            ROW(combine(kind, x, y));
    }
#undef ROW
}

static int32_t combine_int(BinaryKind kind, int32_t x, int32_t y) {
    uint32_t ux = (uint32_t)x, uy = (uint32_t)y;
    switch (kind) {
        case BINARY_ADD:
            return (int32_t)(ux + uy);
        case BINARY_SUB:
            return (int32_t)(ux - uy);
        case BINARY_MUL:
            return (int32_t)(ux * uy);
        case BINARY_DIV:
            return y == 0 || (x == INT32_MIN && y == -1) ? 0 : x / y;
        case BINARY_MAX:
            return x > y ? x : y;
        case BINARY_MIN:
            return x < y ? x : y;
        default:
            return (int32_t)((ux - uy) * (ux - uy));
    }
}

/* Goes over the outer dimensions like an odometer; gives the places of the next row, false after the last. */
static bool next_row(const Broadcast *plan, size_t *at, size_t *place_a, size_t *place_b) {
    for (size_t axis = plan->rank - 1; axis-- > 0;) {
        *place_a += plan->stride_a[axis];
        *place_b += plan->stride_b[axis];
        if (++at[axis] < plan->size[axis]) return true;
        *place_a -= plan->size[axis] * plan->stride_a[axis];
        *place_b -= plan->size[axis] * plan->stride_b[axis];
        at[axis] = 0;
    }
    return false;
}

static bool is_empty(const Broadcast *plan) {
    for (size_t axis = 0; axis < plan->rank; axis++)
        if (plan->size[axis] == 0) return true;
    return false;
}

void binary_float(BinaryKind kind, const Broadcast *plan, const float *a, const float *b, float *out) {
    if (is_empty(plan)) return;
    if (plan->rank == 0) {
        *out = combine(kind, *a, *b);
        return;
    }
    size_t at[MAX_RANK] = {0}, place_a = 0, place_b = 0, last = plan->rank - 1, count = plan->size[last];
    do {
        combine_row(kind, a + place_a, plan->stride_a[last], b + place_b, plan->stride_b[last], out, count);
        out += count;
    } while (next_row(plan, at, &place_a, &place_b));
}

void binary_int(BinaryKind kind, const Broadcast *plan, const int32_t *a, const int32_t *b, int32_t *out) {
    if (is_empty(plan)) return;
    if (plan->rank == 0) {
        *out = combine_int(kind, *a, *b);
        return;
    }
    size_t at[MAX_RANK] = {0}, place_a = 0, place_b = 0, last = plan->rank - 1, count = plan->size[last];
    do {
        for (size_t i = 0; i < count; i++)
            out[i] = combine_int(kind, a[place_a + i * plan->stride_a[last]], b[place_b + i * plan->stride_b[last]]);
        out += count;
    } while (next_row(plan, at, &place_a, &place_b));
}

void unary_float(UnaryKind kind, const float *in, float *out, size_t count) {
#define EACH(expression)                                                        \
    for (size_t i = 0; i < count; i++) {                                        \
        float x = in[i];                                                        \
        out[i] = (expression);                                                  \
    }                                                                           \
    return
    switch (kind) {
        case UNARY_ABS:
            EACH(fabsf(x));
        case UNARY_CEIL:
            EACH(ceilf(x));
        case UNARY_COS:
            EACH(cosf(x));
        case UNARY_EXP:
            EACH(expf(x));
        case UNARY_FLOOR:
            EACH(floorf(x));
        case UNARY_LOG:
            EACH(logf(x));
        case UNARY_NEG:
            EACH(-x);
        case UNARY_ROUND:
            EACH(rintf(x)); /* Halves go to the even neighbour. */
        case UNARY_RSQRT:
            EACH(1.0f / sqrtf(x));
        case UNARY_SIN:
            EACH(sinf(x));
        case UNARY_SQRT:
            EACH(sqrtf(x));
        case UNARY_SQUARE:
            EACH(x * x);
    }
#undef EACH
}

void scale_run(const float *in, const float *factor, const float *offset, size_t outer, size_t middle, size_t inner,
               float *out) {
    for (size_t o = 0; o < outer; o++)
        for (size_t m = 0; m < middle; m++) {
            float f = factor ? factor[m] : 1.0f, shift = offset ? offset[m] : 0.0f;
            for (size_t i = 0; i < inner; i++) *out++ = *in++ * f + shift;
        }
}

void prelu_run(const float *in, const float *slope, size_t outer, size_t channels, bool shared, float *out) {
    for (size_t o = 0; o < outer; o++)
        for (size_t c = 0; c < channels; c++, in++) *out++ = *in > 0.0f ? *in : *in * slope[shared ? 0 : c];
}

void half_to_float(const uint16_t *in, float *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t sign = (uint32_t)(in[i] & 0x8000u) << 16, exponent = in[i] >> 10 & 0x1Fu, fraction = in[i] & 0x3FFu;
        uint32_t bits;
        if (exponent == 0x1F) {
            bits = sign | 0x7F800000u | fraction << 13;
        } else if (exponent) {
            bits = sign | (exponent + 112) << 23 | fraction << 13;
        } else {
            /* Subnormal: 2^-24 times the fraction, exact in float. */
            float value = (float)fraction * 0x1p-24f;
            memcpy(&bits, &value, sizeof bits);
            bits |= sign;
        }
        memcpy(&out[i], &bits, sizeof bits);
    }
}

void float_to_half(const float *in, uint16_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
        if (rest >= 0x7F800000u) {
            out[i] = (uint16_t)(sign | (rest > 0x7F800000u ? 0x7E00u : 0x7C00u));
        } else if (rest >= 0x477FF000u) {
            out[i] = (uint16_t)(sign | 0x7C00u); /* Rounds to infinity. */
        } else if (rest >= 0x38800000u) {
            uint32_t rounded = rest + 0xFFFu + (rest >> 13 & 1u);
            out[i] = (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
        } else {
            /* Subnormal: nearest multiple of 2^-24, halves to even. */
            float magnitude;
            memcpy(&magnitude, &rest, sizeof magnitude);
            out[i] = (uint16_t)(sign | (uint32_t)rintf(magnitude * 0x1p24f));
        }
    }
}
