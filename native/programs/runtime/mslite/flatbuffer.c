#include "flatbuffer.h"

#include <string.h>

/* Little-endian numbers, byte by byte: neither the alignment nor the host's byte order matters. */
static uint64_t read_number(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | from[i];
    return value;
}

static bool inside(FbBuffer *buffer, size_t at, size_t bytes) {
    if (at <= buffer->size && bytes <= buffer->size - at) return true;
    buffer->damaged = true;
    return false;
}

static FbTable table_at(FbBuffer *buffer, size_t at) {
    FbTable none = {.buffer = buffer};
    if (at == 0 || !inside(buffer, at, 4)) return none;
    int32_t back = (int32_t)(uint32_t)read_number(buffer->data + at, 4);
    int64_t vtable = (int64_t)at - back;
    if (vtable < 0 || !inside(buffer, (size_t)vtable, 4)) {
        buffer->damaged = true;
        return none;
    }
    FbTable table = {.buffer = buffer, .at = at, .vtable = (size_t)vtable};
    table.vtable_bytes = (uint16_t)read_number(buffer->data + table.vtable, 2);
    table.table_bytes = (uint16_t)read_number(buffer->data + table.vtable + 2, 2);
    bool whole = inside(buffer, table.vtable, table.vtable_bytes) && inside(buffer, at, table.table_bytes);
    if (!whole || table.vtable_bytes < 4 || table.table_bytes < 4) {
        buffer->damaged = true;
        return none;
    }
    return table;
}

/* Where the field of a slot begins; 0 when it is absent. */
static size_t field_at(FbTable table, unsigned slot, size_t bytes) {
    size_t entry = 4 + 2 * (size_t)slot;
    if (table.at == 0 || entry + 2 > table.vtable_bytes) return 0;
    size_t offset = (size_t)read_number(table.buffer->data + table.vtable + entry, 2);
    if (offset == 0) return 0;
    if (offset < 4 || offset + bytes > table.table_bytes) {
        table.buffer->damaged = true;
        return 0;
    }
    return table.at + offset;
}

/* What an offset leads to; 0 when that is outside. Offsets only lead forward. */
static size_t target_of(FbBuffer *buffer, size_t at) {
    size_t offset = (size_t)read_number(buffer->data + at, 4);
    if (offset == 0 || offset > buffer->size - at) {
        buffer->damaged = true;
        return 0;
    }
    return at + offset;
}

FbTable fb_root(FbBuffer *buffer) {
    FbTable none = {.buffer = buffer};
    if (!inside(buffer, 0, 8)) return none;
    return table_at(buffer, target_of(buffer, 0));
}

FbTable fb_table(FbTable table, unsigned slot) {
    FbTable none = {.buffer = table.buffer};
    size_t at = field_at(table, slot, 4);
    return at ? table_at(table.buffer, target_of(table.buffer, at)) : none;
}

FbVector fb_vector(FbTable table, unsigned slot, size_t item_bytes) {
    FbVector none = {0};
    FbBuffer *buffer = table.buffer;
    size_t at = field_at(table, slot, 4);
    if (!at) return none;
    at = target_of(buffer, at);
    if (!at || !inside(buffer, at, 4)) return none;
    size_t count = (size_t)read_number(buffer->data + at, 4);
    if (count > (buffer->size - at - 4) / item_bytes) {
        buffer->damaged = true;
        return none;
    }
    return (FbVector){.items = buffer->data + at + 4, .count = count};
}

FbTable fb_table_item(FbTable owner, FbVector vector, size_t index) {
    size_t at = (size_t)(vector.items - owner.buffer->data) + 4 * index;
    return table_at(owner.buffer, target_of(owner.buffer, at));
}

bool fb_has(FbTable table, unsigned slot) { return field_at(table, slot, 1) != 0; }

static uint64_t scalar(FbTable table, unsigned slot, size_t bytes, uint64_t otherwise) {
    size_t at = field_at(table, slot, bytes);
    return at ? read_number(table.buffer->data + at, bytes) : otherwise;
}

bool fb_bool(FbTable table, unsigned slot, bool otherwise) { return scalar(table, slot, 1, otherwise) != 0; }

int8_t fb_i8(FbTable table, unsigned slot, int8_t otherwise) {
    return (int8_t)(uint8_t)scalar(table, slot, 1, (uint8_t)otherwise);
}

int32_t fb_i32(FbTable table, unsigned slot, int32_t otherwise) {
    return (int32_t)(uint32_t)scalar(table, slot, 4, (uint32_t)otherwise);
}

int64_t fb_i64(FbTable table, unsigned slot, int64_t otherwise) {
    return (int64_t)scalar(table, slot, 8, (uint64_t)otherwise);
}

float fb_f32(FbTable table, unsigned slot, float otherwise) {
    size_t at = field_at(table, slot, 4);
    if (!at) return otherwise;
    uint32_t bits = (uint32_t)read_number(table.buffer->data + at, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double fb_f64(FbTable table, unsigned slot, double otherwise) {
    size_t at = field_at(table, slot, 8);
    if (!at) return otherwise;
    uint64_t bits = read_number(table.buffer->data + at, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t fb_u32_item(FbVector vector, size_t index) { return (uint32_t)read_number(vector.items + 4 * index, 4); }

int64_t fb_i64_item(FbVector vector, size_t index) { return (int64_t)read_number(vector.items + 8 * index, 8); }
