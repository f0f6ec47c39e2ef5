#include <cstdio>
#include <net.h>

static const char text[] = "7767517\n2 2\nInput in 0 1 in\nSoftmax out 1 1 in out 0=0\n";

int main() {
    ncnn::Net net;
    net.opt.num_threads = 1;
    if (net.load_param_mem(text) || net.load_model((const unsigned char *)"") < 0) return 1;
    ncnn::Mat in(3), out;
    for (int i = 0; i < 3; i++) in[i] = (float)i;
    ncnn::Extractor run = net.create_extractor();
    run.input("in", in);
    if (run.extract("out", out)) return 2;
    std::printf("%.3f %.3f %.3f\n", out[0], out[1], out[2]);
}
