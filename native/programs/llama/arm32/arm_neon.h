/* Stands before the compiler's <arm_neon.h> when llama.cpp or whisper.cpp is built for arm32.
 *
 * For every 32-bit ARM CPU ggml writes functions of its own for the instructions of 64-bit ARM. ARMv8 has one of them
 * in its 32-bit state too, where the compiler's header then has a function of that name. ggml's gets another name, and
 * stays in use: it rounds halves away from zero and the instruction rounds them to even, so results do not depend on
 * the CPU tuning.
 */
#ifndef OHFORGE_ARM32_ARM_NEON_H
#define OHFORGE_ARM32_ARM_NEON_H
#include_next <arm_neon.h>
#define vcvtnq_s32_f32 ggml_vcvtnq_s32_f32
#endif
