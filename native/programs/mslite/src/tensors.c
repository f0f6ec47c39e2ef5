#include "tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct TypeEntry {
    OH_AI_DataType type;
    const char *name, *npy;
    size_t bytes;
} TypeEntry;

static const TypeEntry TYPES[] = {
    {OH_AI_DATATYPE_NUMBERTYPE_BOOL, "bool", "|b1", 1},       {OH_AI_DATATYPE_NUMBERTYPE_INT8, "int8", "|i1", 1},
    {OH_AI_DATATYPE_NUMBERTYPE_INT16, "int16", "<i2", 2},     {OH_AI_DATATYPE_NUMBERTYPE_INT32, "int32", "<i4", 4},
    {OH_AI_DATATYPE_NUMBERTYPE_INT64, "int64", "<i8", 8},     {OH_AI_DATATYPE_NUMBERTYPE_UINT8, "uint8", "|u1", 1},
    {OH_AI_DATATYPE_NUMBERTYPE_UINT16, "uint16", "<u2", 2},   {OH_AI_DATATYPE_NUMBERTYPE_UINT32, "uint32", "<u4", 4},
    {OH_AI_DATATYPE_NUMBERTYPE_UINT64, "uint64", "<u8", 8},   {OH_AI_DATATYPE_NUMBERTYPE_FLOAT16, "float16", "<f2", 2},
    {OH_AI_DATATYPE_NUMBERTYPE_FLOAT32, "float32", "<f4", 4}, {OH_AI_DATATYPE_NUMBERTYPE_FLOAT64, "float64", "<f8", 8},
};

static const TypeEntry *entry_of(OH_AI_DataType type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i].type == type) return &TYPES[i];
    return NULL;
}

const char *type_name(OH_AI_DataType type) { return entry_of(type) ? entry_of(type)->name : "unknown"; }

const char *npy_type(OH_AI_DataType type) { return entry_of(type) ? entry_of(type)->npy : NULL; }

size_t type_size(OH_AI_DataType type) { return entry_of(type) ? entry_of(type)->bytes : 0; }

const char *format_name(OH_AI_Format format) {
    static const char *const names[] = {"NCHW", "NHWC", "NHWC4", "HWKC", "HWCK", "KCHW", "CKHW", "KHWC", "CHWK",
                                        "HW",   "HW4",  "NC",    "NC4",  "NC4HW4", "unknown", "NCDHW", "NWC", "NCW"};
    size_t number = (size_t)format;
    return number < sizeof names / sizeof *names ? names[number] : "unknown";
}

void describe_tensor(OH_AI_TensorHandle tensor, char text[DESCRIPTION_BYTES]) {
    size_t rank = 0, used = 0;
    const int64_t *shape = OH_AI_TensorGetShape(tensor, &rank);
    char sizes[160] = "scalar";
    for (size_t i = 0; i < rank && used < sizeof sizes - 24; i++)
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%" PRId64, i ? "x" : "", shape[i]);
    const char *name = OH_AI_TensorGetName(tensor);
    snprintf(text, DESCRIPTION_BYTES, "%.256s %s %s %s %zu bytes", name ? name : "", type_name(OH_AI_TensorGetDataType(tensor)),
             sizes, format_name(OH_AI_TensorGetFormat(tensor)), OH_AI_TensorGetDataSize(tensor));
}

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    double value = exponent == 0x1F ? (fraction ? (double)NAN : (double)INFINITY)
                   : exponent      ? ldexp(1024 + fraction, exponent - 25)
                                   : ldexp(fraction, -24);
    return bits & 0x8000 ? -value : value;
}

double number_at(OH_AI_TensorHandle tensor, size_t index) {
    OH_AI_DataType type = OH_AI_TensorGetDataType(tensor);
    const char *at = (const char *)OH_AI_TensorGetData(tensor) + index * type_size(type);
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } value;
    memcpy(&value, at, type_size(type));
    switch (type) {
        case OH_AI_DATATYPE_NUMBERTYPE_INT8:
            return value.i8;
        case OH_AI_DATATYPE_NUMBERTYPE_BOOL:
        case OH_AI_DATATYPE_NUMBERTYPE_UINT8:
            return value.u8;
        case OH_AI_DATATYPE_NUMBERTYPE_INT16:
            return value.i16;
        case OH_AI_DATATYPE_NUMBERTYPE_UINT16:
            return value.u16;
        case OH_AI_DATATYPE_NUMBERTYPE_INT32:
            return value.i32;
        case OH_AI_DATATYPE_NUMBERTYPE_UINT32:
            return value.u32;
        case OH_AI_DATATYPE_NUMBERTYPE_INT64:
            return (double)value.i64;
        case OH_AI_DATATYPE_NUMBERTYPE_UINT64:
            return (double)value.u64;
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT16:
            return half_value(value.u16);
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT32:
            return (double)value.f32;
        case OH_AI_DATATYPE_NUMBERTYPE_FLOAT64:
            return value.f64;
        default:
            return (double)NAN;
    }
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* k / 2048 for k below 2048: exact in half precision, whose smallest normal number is far below 1 / 2048. */
static uint16_t half_of(uint64_t k) {
    if (k == 0) return 0;
    int exponent = 14;
    while (k < 1024) k <<= 1, exponent--;
    return (uint16_t)(exponent << 10 | (k & 0x3FF));
}

bool fill_from_seed(OH_AI_TensorHandle tensor, uint64_t seed) {
    OH_AI_DataType type = OH_AI_TensorGetDataType(tensor);
    size_t count = (size_t)OH_AI_TensorGetElementNum(tensor), bytes = type_size(type);
    char *data = OH_AI_TensorGetMutableData(tensor);
    if (!data || bytes == 0) {
        fprintf(stderr, "mslite: input %s cannot be filled: no room, or a data type that has no numbers\n",
                OH_AI_TensorGetName(tensor));
        return false;
    }
    for (size_t i = 0; i < count; i++, data += bytes) {
        uint64_t random = next_random(&seed);
        float single = (float)(random >> 40) * 0x1p-24f;
        double wide = (double)(random >> 11) * 0x1p-53;
        uint16_t half = half_of(random >> 53);
        uint64_t digit = type == OH_AI_DATATYPE_NUMBERTYPE_BOOL ? random >> 63 : bytes == 1 ? random >> 56 : random % 10;
        if (type == OH_AI_DATATYPE_NUMBERTYPE_FLOAT32)
            memcpy(data, &single, bytes);
        else if (type == OH_AI_DATATYPE_NUMBERTYPE_FLOAT64)
            memcpy(data, &wide, bytes);
        else if (type == OH_AI_DATATYPE_NUMBERTYPE_FLOAT16)
            memcpy(data, &half, bytes);
        else
            memcpy(data, &digit, bytes); /* Little-endian, as all arches here. */
    }
    return true;
}
