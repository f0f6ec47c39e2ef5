#include <kiss_fft.h>
#include <math.h>
#include <stdio.h>

int main(void) {
    kiss_fft_cpx in[64], out[64];
    kiss_fft_cfg plan = kiss_fft_alloc(64, 0, NULL, NULL);
    for (int i = 0; i < 64; i++) in[i] = (kiss_fft_cpx){cosf(i * 5 * 6.2831853f / 64), 0};
    kiss_fft(plan, in, out);
    int largest = 0;
    for (int i = 0; i < 32; i++) largest = hypotf(out[i].r, out[i].i) > hypotf(out[largest].r, out[largest].i) ? i : largest;
    printf("%d: %.1f\n", largest, out[largest].r);
    return 0;
}
