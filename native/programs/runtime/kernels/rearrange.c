#include <math.h>
#include <string.h>

#include "kernels.h"

static size_t cells_of(const size_t *size, size_t rank) {
    size_t count = 1;
    for (size_t axis = 0; axis < rank; axis++) count *= size[axis];
    return count;
}

/* Copies `out_size` cells that lie `stride` (in cells, may be negative) apart in `in`, from `place` on. */
static void gather_cells(const char *in, int64_t place, const int64_t *stride, const size_t *out_size, size_t rank,
                         size_t item, char *out) {
    size_t at[MAX_RANK] = {0};
    if (cells_of(out_size, rank) == 0) return;
    if (rank == 0) {
        memcpy(out, in + place * (int64_t)item, item);
        return;
    }
    size_t last = rank - 1, row = out_size[last];
    for (;;) {
        if (stride[last] == 1) {
            memcpy(out, in + place * (int64_t)item, row * item);
        } else {
            for (size_t i = 0; i < row; i++)
                memcpy(out + i * item, in + (place + (int64_t)i * stride[last]) * (int64_t)item, item);
        }
        out += row * item;
        size_t axis = last;
        for (; axis > 0; axis--) {
            place += stride[axis - 1];
            if (++at[axis - 1] < out_size[axis - 1]) break;
            place -= (int64_t)out_size[axis - 1] * stride[axis - 1];
            at[axis - 1] = 0;
        }
        if (axis == 0) return;
    }
}

void transpose_run(const void *in, const size_t *size, const size_t *order, size_t rank, size_t item, void *out) {
    int64_t stride[MAX_RANK], own[MAX_RANK];
    size_t out_size[MAX_RANK], product = 1;
    for (size_t axis = rank; axis-- > 0; product *= size[axis]) own[axis] = (int64_t)product;
    for (size_t axis = 0; axis < rank; axis++) {
        stride[axis] = own[order[axis]];
        out_size[axis] = size[order[axis]];
    }
    gather_cells(in, 0, stride, out_size, rank, item, out);
}

void slice_run(const void *in, const size_t *size, const int64_t *begin, const int64_t *step, const size_t *out_size,
               size_t rank, size_t item, void *out) {
    int64_t stride[MAX_RANK], place = 0;
    size_t product = 1;
    for (size_t axis = rank; axis-- > 0; product *= size[axis]) {
        place += begin[axis] * (int64_t)product;
        stride[axis] = step[axis] * (int64_t)product;
    }
    gather_cells(in, place, stride, out_size, rank, item, out);
}

void pad_run(const void *in, const size_t *size, const size_t *before, const size_t *out_size, size_t rank,
             const void *value, size_t item, void *out) {
    size_t at[MAX_RANK] = {0}, cells = cells_of(out_size, rank);
    for (size_t i = 0; i < cells; i++) memcpy((char *)out + i * item, value, item);
    if (cells_of(size, rank) == 0) return;
    if (rank == 0) {
        memcpy(out, in, item);
        return;
    }
    const char *from = in;
    size_t last = rank - 1;
    for (;;) {
        size_t place = 0;
        for (size_t axis = 0; axis < rank; axis++)
            place = place * out_size[axis] + before[axis] + (axis == last ? 0 : at[axis]);
        memcpy((char *)out + place * item, from, size[last] * item);
        from += size[last] * item;
        size_t axis = last;
        for (; axis > 0; axis--) {
            if (++at[axis - 1] < size[axis - 1]) break;
            at[axis - 1] = 0;
        }
        if (axis == 0) return;
    }
}

static float source_place(size_t at, size_t old, size_t new, ResizeCoordinates coordinates) {
    switch (coordinates) {
        case RESIZE_ALIGN_CORNERS:
            return new > 1 ? (float)at * (float)(old - 1) / (float)(new - 1) : 0.0f;
        case RESIZE_HALF_PIXEL:
            return ((float)at + 0.5f) * (float)old / (float)new - 0.5f;
        default:
            return (float)at * (float)old / (float)new;
    }
}

typedef struct Mix {
    size_t low, high;
    float share; /* Of the higher cell. */
} Mix;

static Mix mix_at(size_t at, size_t old, size_t new, bool nearest, ResizeCoordinates coordinates) {
    float place = source_place(at, old, new, coordinates);
    if (place < 0.0f) place = 0.0f;
    if (place > (float)(old - 1)) place = (float)(old - 1);
    if (nearest) {
        size_t cell = (size_t)(coordinates == RESIZE_ALIGN_CORNERS ? floorf(place + 0.5f) : floorf(place));
        return (Mix){cell, cell, 0.0f};
    }
    size_t low = (size_t)place;
    return (Mix){low, low + 1 < old ? low + 1 : old - 1, place - (float)low};
}

void resize_run(const float *in, size_t batch, size_t in_height, size_t in_width, size_t channels, size_t out_height,
                size_t out_width, bool nearest, ResizeCoordinates coordinates, float *out) {
    for (size_t image = 0; image < batch; image++, in += in_height * in_width * channels)
        for (size_t y = 0; y < out_height; y++) {
            Mix row = mix_at(y, in_height, out_height, nearest, coordinates);
            for (size_t x = 0; x < out_width; x++) {
                Mix column = mix_at(x, in_width, out_width, nearest, coordinates);
                const float *a = in + (row.low * in_width + column.low) * channels;
                const float *b = in + (row.low * in_width + column.high) * channels;
                const float *c = in + (row.high * in_width + column.low) * channels;
                const float *d = in + (row.high * in_width + column.high) * channels;
                for (size_t k = 0; k < channels; k++) {
                    float upper = a[k] + (b[k] - a[k]) * column.share, lower = c[k] + (d[k] - c[k]) * column.share;
                    *out++ = upper + (lower - upper) * row.share;
                }
            }
        }
}
