#include <cstdio>
#include <hb.h>

int main() {
    hb_buffer_t *buffer = hb_buffer_create();
    hb_buffer_add_utf8(buffer, "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", -1, 0, -1);
    hb_buffer_guess_segment_properties(buffer);
    char script[5] = "";
    hb_tag_to_string(hb_script_to_iso15924_tag(hb_buffer_get_script(buffer)), script);
    hb_shape(hb_font_get_empty(), buffer, nullptr, 0);
    std::printf("%s %s %u\n", script, hb_direction_to_string(hb_buffer_get_direction(buffer)), hb_buffer_get_length(buffer));
}
