#include <math.h>
#include <stdio.h>
#include <vorbis/vorbisenc.h>

int main(void) {
    vorbis_info info;
    vorbis_dsp_state state;
    vorbis_block block;
    ogg_packet packet;
    int packets = 0;
    vorbis_info_init(&info);
    if (vorbis_encode_init_vbr(&info, 1, 16000, 0.4f)) return 1;
    vorbis_analysis_init(&state, &info);
    vorbis_block_init(&state, &block);
    float *samples = vorbis_analysis_buffer(&state, 16000)[0];
    for (int i = 0; i < 16000; i++) samples[i] = 0.5f * sinf(i * 0.17f);
    vorbis_analysis_wrote(&state, 16000);
    vorbis_analysis_wrote(&state, 0);
    long long end = 0;
    while (vorbis_analysis_blockout(&state, &block) == 1) {
        vorbis_analysis(&block, NULL);
        vorbis_bitrate_addblock(&block);
        while (vorbis_bitrate_flushpacket(&state, &packet)) packets++, end = packet.granulepos;
    }
    printf("%s packets, %lld samples\n", packets > 10 ? "many" : "few", end);
    return 0;
}
