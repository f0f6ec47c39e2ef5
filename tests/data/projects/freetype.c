#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H
#include FT_BITMAP_H
#include <stdio.h>

int main(void) {
    /* A square of 8 by 8 pixels, drawn from its outline. */
    FT_Library library;
    FT_Vector points[] = {{0, 0}, {512, 0}, {512, 512}, {0, 512}};
    char tags[] = {1, 1, 1, 1};
    short ends[] = {3};
    FT_Outline outline = {.n_contours = 1, .n_points = 4, .points = points, .tags = tags, .contours = ends};
    unsigned char pixels[10 * 10] = {0};
    FT_Bitmap bitmap = {.rows = 10, .width = 10, .pitch = 10, .buffer = pixels, .num_grays = 256, .pixel_mode = FT_PIXEL_MODE_GRAY};
    if (FT_Init_FreeType(&library) || FT_Outline_Get_Bitmap(library, &outline, &bitmap)) return 1;
    int full = 0;
    for (int i = 0; i < 100; i++) full += pixels[i] == 255;
    printf("%d pixels\n", full);
    return 0;
}
