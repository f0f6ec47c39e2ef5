#include <cblas.h>
#include <stdio.h>

int main(void) {
    float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, c[4] = {0};
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
    return 0;
}
