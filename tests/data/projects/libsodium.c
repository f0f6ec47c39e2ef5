#include <sodium.h>
#include <stdio.h>

int main(void) {
    unsigned char hash[32], key[32] = {0}, nonce[24] = {0}, box[16 + 5], back[6] = "";
    char text[65];
    if (sodium_init() < 0) return 1;
    crypto_hash_sha256(hash, (const unsigned char *)"abc", 3);
    crypto_secretbox_easy(box, (const unsigned char *)"hello", 5, nonce, key);
    if (crypto_secretbox_open_easy(back, box, sizeof box, nonce, key)) return 2;
    box[3] ^= 1;
    printf("%s %s %d\n", sodium_bin2hex(text, sizeof text, hash, 32), back,
           crypto_secretbox_open_easy(back, box, sizeof box, nonce, key));
    return 0;
}
