#include <gmp.h>
#include <stdio.h>

int main(void) {
    mpz_t number;
    mpz_init(number);
    mpz_fac_ui(number, 30);
    gmp_printf("%Zd\n", number);
    mpz_ui_pow_ui(number, 2, 127);
    mpz_sub_ui(number, number, 1);
    printf("%s\n", mpz_probab_prime_p(number, 25) ? "prime" : "composite");
    return 0;
}
