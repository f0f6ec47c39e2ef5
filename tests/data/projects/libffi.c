#include <ffi.h>
#include <stdio.h>

static double mix(int a, double b, float c, long long d) { return a + b * c + (double)d; }
static void answer(ffi_cif *cif, void *result, void **arguments, void *data) {
    (void)cif;
    *(ffi_sarg *)result = *(int *)arguments[0] * *(int *)data;
}

int main(void) {
    ffi_cif cif, back;
    ffi_type *types[] = {&ffi_type_sint, &ffi_type_double, &ffi_type_float, &ffi_type_sint64};
    int a = 1, six = 6;
    double b = 2.5, result;
    float c = 4;
    long long d = 1LL << 40;
    void *values[] = {&a, &b, &c, &d}, *code;
    if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, 4, &ffi_type_double, types)) return 1;
    ffi_call(&cif, FFI_FN(mix), &result, values);
    ffi_closure *closure = ffi_closure_alloc(sizeof *closure, &code);
    if (ffi_prep_cif(&back, FFI_DEFAULT_ABI, 1, &ffi_type_sint, types)) return 2;
    if (ffi_prep_closure_loc(closure, &back, answer, &six, code)) return 3;
    printf("%.1f %d\n", result, ((int (*)(int))code)(7));
    return 0;
}
