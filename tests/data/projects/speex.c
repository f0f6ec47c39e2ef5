#include <speex/speex.h>
#include <stdio.h>

int main(void) {
    void *encoder = speex_encoder_init(speex_lib_get_mode(SPEEX_MODEID_WB));
    int frame, rate;
    speex_encoder_ctl(encoder, SPEEX_GET_FRAME_SIZE, &frame);
    speex_encoder_ctl(encoder, SPEEX_GET_SAMPLING_RATE, &rate);
    SpeexBits bits;
    speex_bits_init(&bits);
    spx_int16_t samples[320] = {0};
    speex_encode_int(encoder, samples, &bits);
    printf("%d samples at %d Hz, %s\n", frame, rate, speex_bits_nbytes(&bits) > 3 ? "encoded" : "nothing");
    return 0;
}
