#include <ares.h>
#include <netdb.h>
#include <stdio.h>

int main(void) {
    /* An answer as RFC 1035 has it: ID 1, one question (a.b, A), one address: 10.1.2.3. */
    static const unsigned char answer[] = "\0\1\x81\x80\0\1\0\1\0\0\0\0\1a\1b\0\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\n\1\2\3";
    struct hostent *host;
    struct ares_addrttl addresses[2];
    int count = 2, status = ares_parse_a_reply(answer, sizeof answer - 1, &host, addresses, &count);
    char text[32] = "";
    if (status) return puts(ares_strerror(status)), 1;
    ares_inet_ntop(AF_INET, &addresses[0].ipaddr, text, sizeof text);
    printf("%s %s for %d s\n", host->h_name, text, addresses[0].ttl);
    return 0;
}
