#include <stdio.h>
#include <string.h>
#include <zlib.h>

int main(void) {
    unsigned char text[4000], packed[4000], back[4000];
    uLongf size = sizeof packed, length = sizeof back;
    memset(text, 'x', sizeof text);
    if (compress(packed, &size, text, sizeof text) || uncompress(back, &length, packed, size)) return 1;
    printf("%lx %lx %d\n", crc32(0, (const Bytef *)"123456789", 9), adler32(1, (const Bytef *)"Wikipedia", 9),
           length == sizeof text && size < 100 && !memcmp(text, back, length));
    return 0;
}
