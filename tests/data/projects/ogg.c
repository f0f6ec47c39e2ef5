#include <ogg/ogg.h>
#include <stdio.h>

int main(void) {
    ogg_stream_state stream;
    ogg_page page;
    ogg_packet head = {.packet = (unsigned char *)"head", .bytes = 4, .b_o_s = 1};
    ogg_packet packet = {.packet = (unsigned char *)"hello", .bytes = 5, .granulepos = 7, .packetno = 1};
    ogg_stream_init(&stream, 3);
    if (ogg_stream_packetin(&stream, &head) || !ogg_stream_flush(&stream, &page)) return 1;
    if (ogg_stream_packetin(&stream, &packet) || !ogg_stream_flush(&stream, &page)) return 2;
    printf("%.4s of %d, granule %d, %ld bytes of body\n", (char *)page.header, ogg_page_serialno(&page),
           (int)ogg_page_granulepos(&page), page.body_len);
    return 0;
}
