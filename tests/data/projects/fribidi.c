#include <fribidi.h>
#include <stdio.h>

int main(void) {
    FriBidiChar text[] = {'a', ' ', 0x5d0, 0x5d1, ' ', '1'}, seen[7] = {0};
    FriBidiParType base = FRIBIDI_PAR_LTR;
    fribidi_log2vis(text, 6, &base, seen, NULL, NULL, NULL);
    for (int i = 0; i < 6; i++) printf("%x ", seen[i]);
    puts("");
    return 0;
}
