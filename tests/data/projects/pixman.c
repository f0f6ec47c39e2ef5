#include <pixman.h>
#include <stdio.h>

int main(void) {
    uint32_t below = 0xff0000ff, above = 0x80800000;
    pixman_image_t *target = pixman_image_create_bits(PIXMAN_a8r8g8b8, 1, 1, &below, 4);
    pixman_image_t *source = pixman_image_create_bits(PIXMAN_a8r8g8b8, 1, 1, &above, 4);
    pixman_image_composite32(PIXMAN_OP_OVER, source, NULL, target, 0, 0, 0, 0, 0, 0, 1, 1);
    printf("%08x\n", below);
    return 0;
}
