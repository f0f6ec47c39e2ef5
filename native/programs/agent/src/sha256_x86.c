/* SHA-256 with the SHA extensions of x86-64. One function alone is compiled for a CPU that has them. */
#include "sha256.h"

#include <cpuid.h>
#include <immintrin.h>

static int cpu_has_sha(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}

__attribute__((target("sha,sse4.1")))
static void compress_sha_ni(uint32_t state[8], const uint8_t *data, size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    /* The instructions want the state as {a,b,e,f} and {c,d,g,h}, highest word first. */
    __m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
    __m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
    for (; blocks > 0; blocks--, data += SHA256_BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), swap);
#pragma clang loop unroll(full)
        for (int step = 0; step < 16; step++) {
            __m128i *here = &w[step & 3];
            if (step >= 4) {
                __m128i last = w[(step + 3) & 3];
                __m128i middle = _mm_alignr_epi8(last, w[(step + 2) & 3], 4);
                *here = _mm_sha256msg2_epu32(
                    _mm_add_epi32(_mm_sha256msg1_epu32(*here, w[(step + 1) & 3]), middle), last);
            }
            __m128i sum = _mm_add_epi32(
                *here, _mm_loadu_si128((const __m128i *)(const void *)(sha256_constants + 4 * step)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    uint32_t first[4], second[4];
    _mm_storeu_si128((__m128i *)(void *)first, abef);
    _mm_storeu_si128((__m128i *)(void *)second, cdgh);
    state[0] = first[3], state[1] = first[2], state[4] = first[1], state[5] = first[0];
    state[2] = second[3], state[3] = second[2], state[6] = second[1], state[7] = second[0];
}

struct sha256_engine sha256_cpu_engine(void) {
    if (!cpu_has_sha()) return (struct sha256_engine){0};
    return (struct sha256_engine){.name = "sha-ni", .compress = compress_sha_ni};
}
