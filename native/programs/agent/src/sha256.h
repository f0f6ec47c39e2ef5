/* SHA-256 (FIPS 180-4), with the CPU's own instructions where it has them. */
#ifndef OHFORGE_SHA256_H
#define OHFORGE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BLOCK 64
#define SHA256_BYTES 32

typedef void sha256_compress(uint32_t state[8], const uint8_t *data, size_t blocks);

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes taken so far */
    uint8_t pending[SHA256_BLOCK];
    sha256_compress *compress;
};

/* One way of computing it; `compress` is NULL where this build has no such way. */
struct sha256_engine {
    const char *name;
    sha256_compress *compress;
};

extern const uint32_t sha256_constants[64];

/* The fastest engine of this CPU. */
struct sha256_engine sha256_best_engine(void);
/* The engine in plain C, which runs everywhere. */
struct sha256_engine sha256_portable_engine(void);
/* In sha256_arm.c and sha256_x86.c; name NULL when the CPU lacks the instructions. */
struct sha256_engine sha256_cpu_engine(void);

void sha256_begin(struct sha256 *sha, struct sha256_engine engine);
void sha256_add(struct sha256 *sha, const uint8_t *data, size_t length);
void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES]);

#endif
