#include <lzo/lzo1x.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    static unsigned char text[5000], packed[6000], back[5000], work[LZO1X_1_MEM_COMPRESS];
    lzo_uint size = 0, length = sizeof back;
    if (lzo_init()) return 1;
    lzo1x_1_compress(text, sizeof text, packed, &size, work);
    int status = lzo1x_decompress_safe(packed, size, back, &length, NULL);
    printf("%d %d %s\n", status, (int)length, size < 200 && !memcmp(text, back, length) ? "the same" : "other");
    return 0;
}
