/* SHA-256 with the ARMv8 instructions, the same source for arm64 and arm32. They are written as assembly, so that the
 * file needs no compiler flags of its own (each compiler spells those differently) and the rest of it stays free of
 * instructions that an older CPU lacks. The kernel is asked before they are used. */
#include "sha256.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#include <sys/auxv.h>

/* Bits of the auxiliary vector, from the kernel's interface (asm/hwcap.h of each arch). */
#if defined(__aarch64__)
#define HAS_SHA2 (getauxval(AT_HWCAP) >> 6 & 1)
#define ALLOW ".arch armv8-a+crypto\n\t"
#define SHA256H "sha256h %q0, %q1, %2.4s"
#define SHA256H2 "sha256h2 %q0, %q1, %2.4s"
#define SHA256SU0 "sha256su0 %0.4s, %1.4s"
#define SHA256SU1 "sha256su1 %0.4s, %1.4s, %2.4s"
#else
#define HAS_SHA2 (getauxval(AT_HWCAP2) >> 3 & 1)
#define ALLOW ".arch armv8-a\n\t.fpu crypto-neon-fp-armv8\n\t"
#define SHA256H "sha256h.32 %q0, %q1, %q2"
#define SHA256H2 "sha256h2.32 %q0, %q1, %q2"
#define SHA256SU0 "sha256su0.32 %q0, %q1"
#define SHA256SU1 "sha256su1.32 %q0, %q1, %q2"
#endif
#define SHA256_2(instruction, changed, a) __asm__(ALLOW instruction : "+w"(changed) : "w"(a))
#define SHA256_3(instruction, changed, a, b) __asm__(ALLOW instruction : "+w"(changed) : "w"(a), "w"(b))

static uint32x4_t load_words(const uint8_t *at) { return vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(at))); }

static void compress_armv8(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; blocks > 0; blocks--, data += SHA256_BLOCK) {
        const uint32x4_t abcd_before = abcd, efgh_before = efgh;
        uint32x4_t w[4];
        for (unsigned i = 0; i < 4; i++) w[i] = load_words(data + 16 * i);
        /* Four rounds a step; from the fifth step on the words are made from the sixteen before them. */
#pragma clang loop unroll(full)
        for (unsigned step = 0; step < 16; step++) {
            uint32x4_t *here = &w[step & 3];
            if (step >= 4) {
                SHA256_2(SHA256SU0, *here, w[(step + 1) & 3]);
                SHA256_3(SHA256SU1, *here, w[(step + 2) & 3], w[(step + 3) & 3]);
            }
            uint32x4_t sum = vaddq_u32(*here, vld1q_u32(sha256_constants + 4 * step)), abcd_old = abcd;
            SHA256_3(SHA256H, abcd, efgh, sum);
            SHA256_3(SHA256H2, efgh, abcd_old, sum);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

struct sha256_engine sha256_cpu_engine(void) {
    if (!HAS_SHA2) return (struct sha256_engine){0};
    return (struct sha256_engine){.name = "armv8", .compress = compress_armv8};
}
#else
/* A soft-float build for arm32 has no vector registers to do it in. */
struct sha256_engine sha256_cpu_engine(void) { return (struct sha256_engine){0}; }
#endif
