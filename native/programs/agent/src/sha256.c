#include "sha256.h"

#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* First 32 bits of the fractional parts of the square roots of the first 8 primes. */
static const uint32_t initial_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate(uint32_t word, unsigned count) { return word >> count | word << (32 - count); }

static uint32_t load_big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The names a to h are those of the standard. Instead of moving eight words a step, the macro is called with the
 * names moved round; the message schedule is kept in 16 words. */
#define STEP(a, b, c, d, e, f, g, h, word, constant)                                                                   \
    do {                                                                                                               \
        uint32_t first = (h) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) +          \
                         (constant) + (word);                                                                          \
        (d) += first;                                                                                                  \
        (h) = first + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b))));            \
    } while (0)

static uint32_t extend(uint32_t w[16], unsigned i) {
    uint32_t near = w[(i + 14) & 15], far = w[(i + 1) & 15];
    w[i & 15] += (rotate(near, 17) ^ rotate(near, 19) ^ near >> 10) + w[(i + 9) & 15] +
                 (rotate(far, 7) ^ rotate(far, 18) ^ far >> 3);
    return w[i & 15];
}

static void compress_portable(uint32_t state[8], const uint8_t *data, size_t blocks) {
    for (; blocks > 0; blocks--, data += SHA256_BLOCK) {
        uint32_t w[16];
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (unsigned i = 0; i < 16; i++) w[i] = load_big_endian(data + 4 * i);
        for (unsigned i = 0; i < 64; i += 8) {
            const uint32_t *k = sha256_constants + i;
#define WORD(n) (i < 16 ? w[(i + (n)) & 15] : extend(w, i + (n)))
            STEP(a, b, c, d, e, f, g, h, WORD(0), k[0]);
            STEP(h, a, b, c, d, e, f, g, WORD(1), k[1]);
            STEP(g, h, a, b, c, d, e, f, WORD(2), k[2]);
            STEP(f, g, h, a, b, c, d, e, WORD(3), k[3]);
            STEP(e, f, g, h, a, b, c, d, WORD(4), k[4]);
            STEP(d, e, f, g, h, a, b, c, WORD(5), k[5]);
            STEP(c, d, e, f, g, h, a, b, WORD(6), k[6]);
            STEP(b, c, d, e, f, g, h, a, WORD(7), k[7]);
#undef WORD
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

struct sha256_engine sha256_portable_engine(void) {
    return (struct sha256_engine){.name = "portable", .compress = compress_portable};
}

struct sha256_engine sha256_best_engine(void) {
    struct sha256_engine engine = sha256_cpu_engine();
    return engine.compress ? engine : sha256_portable_engine();
}

void sha256_begin(struct sha256 *sha, struct sha256_engine engine) {
    memcpy(sha->state, initial_state, sizeof initial_state);
    sha->length = 0;
    sha->compress = engine.compress;
}

void sha256_add(struct sha256 *sha, const uint8_t *data, size_t length) {
    size_t held = sha->length % SHA256_BLOCK;
    sha->length += length;
    if (held > 0) {
        size_t taken = SHA256_BLOCK - held < length ? SHA256_BLOCK - held : length;
        memcpy(sha->pending + held, data, taken);
        if (held + taken < SHA256_BLOCK) return;
        sha->compress(sha->state, sha->pending, 1);
        data += taken;
        length -= taken;
    }
    if (length >= SHA256_BLOCK) sha->compress(sha->state, data, length / SHA256_BLOCK);
    memcpy(sha->pending, data + length / SHA256_BLOCK * SHA256_BLOCK, length % SHA256_BLOCK);
}

void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_BYTES]) {
    uint64_t bits = sha->length * 8;
    uint8_t padding[SHA256_BLOCK + 8] = {0x80};
    size_t held = sha->length % SHA256_BLOCK;
    size_t zeros_end = held < 56 ? 56 - held : 120 - held;
    for (unsigned i = 0; i < 8; i++) padding[zeros_end + i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(sha, padding, zeros_end + 8);
    for (unsigned i = 0; i < SHA256_BYTES; i++) digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}
