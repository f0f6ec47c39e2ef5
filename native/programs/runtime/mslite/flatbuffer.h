/* Reads FlatBuffers that nobody has checked: every access stays inside the buffer, and whatever would leave it reads
 * as absent and marks the buffer as damaged. */
#ifndef OHFORGE_FLATBUFFER_H
#define OHFORGE_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct FbBuffer {
    const uint8_t *data;
    size_t size;
    bool damaged;
} FbBuffer;

typedef struct FbTable {
    FbBuffer *buffer;
    size_t at; /* 0: there is no such table. */
    size_t vtable;
    uint16_t vtable_bytes, table_bytes;
} FbTable;

typedef struct FbVector {
    const uint8_t *items; /* NULL: there is no such vector. */
    size_t count;
} FbVector;

FbTable fb_root(FbBuffer *buffer);
FbTable fb_table(FbTable table, unsigned slot);
/* A vector of numbers (or characters) of `item_bytes` each; fb_table_item takes vectors of 4-byte offsets. */
FbVector fb_vector(FbTable table, unsigned slot, size_t item_bytes);
FbTable fb_table_item(FbTable owner, FbVector vector, size_t index);

bool fb_has(FbTable table, unsigned slot);
bool fb_bool(FbTable table, unsigned slot, bool otherwise);
int8_t fb_i8(FbTable table, unsigned slot, int8_t otherwise);
int32_t fb_i32(FbTable table, unsigned slot, int32_t otherwise);
int64_t fb_i64(FbTable table, unsigned slot, int64_t otherwise);
float fb_f32(FbTable table, unsigned slot, float otherwise);
double fb_f64(FbTable table, unsigned slot, double otherwise);

uint32_t fb_u32_item(FbVector vector, size_t index);
int64_t fb_i64_item(FbVector vector, size_t index);

#endif
