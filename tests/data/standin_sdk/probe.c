#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const double angle = argc > 1 ? atof(argv[1]) : 0.0;
    printf("%.6f\n", sin(angle));
    return 7;
}
