#include <capstone/capstone.h>
#include <stdio.h>

int main(void) {
    const unsigned char code[] = {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6};
    csh handle;
    cs_insn *found;
    if (cs_open(CS_ARCH_AARCH64, CS_MODE_LITTLE_ENDIAN, &handle)) return 1;
    size_t count = cs_disasm(handle, code, sizeof code, 0x1000, 0, &found);
    for (size_t i = 0; i < count; i++) printf("%llx %s\n", (unsigned long long)found[i].address, found[i].mnemonic);
    return 0;
}
