#include <nghttp2/nghttp2.h>
#include <stdio.h>

int main(void) {
    /* RFC 7541, C.4.1: the first request with Huffman codes. */
    static const unsigned char block[] = "\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    nghttp2_hd_inflater *inflater;
    const unsigned char *at = block;
    size_t left = sizeof block - 1;
    nghttp2_hd_inflate_new(&inflater);
    for (;;) {
        nghttp2_nv pair;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &pair, &flags, at, left, 1);
        if (used < 0) return 1;
        at += used, left -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) printf("%s=%s ", pair.name, pair.value);
        if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    puts("");
    return 0;
}
