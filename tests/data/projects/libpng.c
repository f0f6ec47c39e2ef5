#include <png.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 16, .height = 8, .format = PNG_FORMAT_RGB};
    unsigned char pixels[8][16][3], back[8][16][3], file[4000];
    png_alloc_size_t size = sizeof file;
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++) memcpy(pixels[y][x], (unsigned char[]){x, y, x * y}, 3);
    if (!png_image_write_to_memory(&image, file, &size, 0, pixels, 0, NULL)) return 1;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, file, size)) return 2;
    image.format = PNG_FORMAT_RGB;
    if (!png_image_finish_read(&image, NULL, back, 0, NULL)) return 3;
    printf("%.3s %ux%u, pixel %u %u %u\n", file + 1, image.width, image.height, back[5][9][0], back[5][9][1], back[5][9][2]);
    return 0;
}
