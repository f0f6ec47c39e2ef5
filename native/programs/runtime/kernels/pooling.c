#include <float.h>
#include <math.h>

#include "kernels.h"

typedef struct Window {
    size_t top, bottom, left, right; /* Cells of the input, the last ones excluded. */
} Window;

static void clip_window(size_t at, size_t stride, size_t kernel, size_t pad, size_t size, size_t *from, size_t *to) {
    size_t begin = at * stride, end = begin + kernel;
    *from = begin > pad ? begin - pad : 0;
    *to = end > pad ? end - pad : 0;
    if (*to > size) *to = size;
    if (*from > *to) *from = *to;
}

static void pool_window(const PoolShape *s, bool maximum, const float *image, Window w, float *out) {
    size_t counted = (w.bottom - w.top) * (w.right - w.left);
    for (size_t c = 0; c < s->channels; c++) out[c] = maximum && counted ? -INFINITY : 0.0f;
    for (size_t y = w.top; y < w.bottom; y++)
        for (size_t x = w.left; x < w.right; x++) {
            const float *cell = image + (y * s->in_width + x) * s->channels;
            if (maximum)
                for (size_t c = 0; c < s->channels; c++) out[c] = cell[c] > out[c] ? cell[c] : out[c];
            else
                for (size_t c = 0; c < s->channels; c++) out[c] += cell[c];
        }
    if (!maximum && counted)
        for (size_t c = 0; c < s->channels; c++) out[c] /= (float)counted;
}

void pool_run(const PoolShape *s, bool maximum, const float *in, float *out) {
    for (size_t image = 0; image < s->batch; image++)
        for (size_t y = 0; y < s->out_height; y++)
            for (size_t x = 0; x < s->out_width; x++) {
                Window w;
                clip_window(y, s->stride_height, s->kernel_height, s->pad_top, s->in_height, &w.top, &w.bottom);
                clip_window(x, s->stride_width, s->kernel_width, s->pad_left, s->in_width, &w.left, &w.right);
                pool_window(s, maximum, in + image * s->in_height * s->in_width * s->channels, w, out);
                out += s->channels;
            }
}
