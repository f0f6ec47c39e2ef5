/* Loads and runs damaged copies of .ms files: usage fuzz_ms ROUNDS SEED FILE…
 *
 * Every round takes one of the files, changes a few bytes or cuts it, builds it and, if the runtime takes it, runs it.
 * Meant to be compiled with sanitizers and a small OHFORGE_MAX_TENSOR_BYTES; the sanitizers are the judges. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mindspore/model.h"

static uint64_t state;

static uint32_t next(void) { /* splitmix64 */
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 16);
}

static size_t damage(uint8_t *bytes, size_t size) {
    static const uint32_t edges[] = {0, 1, 2, 4, 8, 127, 128, 255, 256, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    if (next() % 16 == 0) return next() % (size + 1);
    for (unsigned changes = 1 + next() % 4; changes--;) {
        size_t at = next() % size;
        uint32_t word = next() % 2 ? edges[next() % (sizeof edges / sizeof *edges)] : next() % 64;
        switch (next() % 4) {
            case 0:
                bytes[at] ^= (uint8_t)(1u << next() % 8);
                break;
            case 1:
                bytes[at] = (uint8_t)word;
                break;
            case 2:
                if (at + 4 <= size) memcpy(bytes + at / 4 * 4, &word, 4);
                break;
            default: {
                size_t from = next() % size, count = 1 + next() % 16;
                if (from + count <= size && at + count <= size) memmove(bytes + at, bytes + from, count);
            }
        }
    }
    return size;
}

static int try_model(const uint8_t *bytes, size_t size) {
    OH_AI_ContextHandle context = OH_AI_ContextCreate();
    OH_AI_ContextSetThreadNum(context, 1);
    OH_AI_ContextAddDeviceInfo(context, OH_AI_DeviceInfoCreate(OH_AI_DEVICETYPE_CPU));
    OH_AI_ModelHandle model = OH_AI_ModelCreate();
    int ran = 0;
    if (OH_AI_ModelBuild(model, bytes, size, OH_AI_MODELTYPE_MINDIR, context) == OH_AI_STATUS_SUCCESS) {
        OH_AI_TensorHandleArray in = OH_AI_ModelGetInputs(model), out;
        for (size_t i = 0; i < in.handle_num; i++) {
            void *data = OH_AI_TensorGetMutableData(in.handle_list[i]);
            if (data) memset(data, 0x3C, OH_AI_TensorGetDataSize(in.handle_list[i]));
        }
        for (int i = 0; i < 2; i++) ran = OH_AI_ModelPredict(model, in, &out, NULL, NULL) == OH_AI_STATUS_SUCCESS;
        /* What the results say of themselves must be readable to the last byte. */
        for (size_t i = 0; ran && i < out.handle_num; i++) {
            const uint8_t *data = OH_AI_TensorGetData(out.handle_list[i]);
            size_t bytes_out = OH_AI_TensorGetDataSize(out.handle_list[i]);
            volatile uint8_t seen = 0;
            for (size_t k = 0; data && k < bytes_out; k++) seen ^= data[k];
        }
    }
    OH_AI_ModelDestroy(&model);
    return ran;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    long rounds = atol(words[1]), ran = 0;
    state = strtoull(words[2], NULL, 10);
    for (long round = 0; round < rounds; round++) {
        FILE *file = fopen(words[3 + next() % (unsigned)(count - 3)], "rb");
        if (!file) return 2;
        static uint8_t original[1 << 16];
        size_t size = fread(original, 1, sizeof original, file);
        fclose(file);
        /* A block of exactly the file's size, so that one byte too far is seen. */
        uint8_t *copy = malloc(size);
        memcpy(copy, original, size);
        size = damage(copy, size);
        ran += try_model(copy, size);
        free(copy);
    }
    printf("%ld of %ld ran\n", ran, rounds);
    return 0;
}
