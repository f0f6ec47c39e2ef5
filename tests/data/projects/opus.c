#include <math.h>
#include <opus.h>
#include <stdio.h>

int main(void) {
    int error;
    OpusEncoder *encoder = opus_encoder_create(48000, 1, OPUS_APPLICATION_AUDIO, &error);
    OpusDecoder *decoder = opus_decoder_create(48000, 1, &error);
    static opus_int16 in[960 * 10], out[960 * 10];
    double both = 0, own = 0, other = 0;
    for (int i = 0; i < 9600; i++) in[i] = (opus_int16)(9000 * sin(i * 0.0576));
    for (int frame = 0; frame < 10; frame++) {
        unsigned char packet[1000];
        int size = opus_encode(encoder, in + frame * 960, 960, packet, sizeof packet);
        if (size < 1 || opus_decode(decoder, packet, size, out + frame * 960, 960, 0) != 960) return 1;
    }
    /* What comes out is 312 samples late at 48 kHz (RFC 6716 leaves that to the encoder; this is its own answer). */
    opus_int32 late;
    opus_encoder_ctl(encoder, OPUS_GET_LOOKAHEAD(&late));
    for (int i = 2000; i < 9600 - late; i++)
        both += in[i] * out[i + late], own += in[i] * in[i], other += out[i + late] * out[i + late];
    printf("late %d, %s\n", late, both / sqrt(own * other) > 0.95 ? "alike" : "unlike");
    return 0;
}
