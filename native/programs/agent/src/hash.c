/* `hash FILE…`: SHA-256 of many files in one call; `-` is the file that is standard input.
 *
 * One line for each file, in the order of the arguments: digest, size in bytes, name; or `-`, errno, name when the
 * file could not be read. The status is 0 when all could be read, else 1. */
#include "agent.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (256 * 1024)

static uint8_t buffer[READ_BYTES];

/* The digest and size of the file; 0, or an errno. */
static int hash_file(const char *name, struct sha256_engine engine, uint8_t digest[SHA256_BYTES], uint64_t *size) {
    bool given = strcmp(name, "-") == 0;
    /* A FIFO must not make us wait. */
    int fd = given ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    struct stat status;
    int failed = 0;
    if (fstat(fd, &status) != 0)
        failed = errno;
    else if (!S_ISREG(status.st_mode))
        failed = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    if (!failed) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    struct sha256 sha;
    sha256_begin(&sha, engine);
    while (!failed) {
        ssize_t count = read(fd, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) failed = errno;
        if (count <= 0) break;
        sha256_add(&sha, buffer, (size_t)count);
    }
    if (!given) close(fd);
    *size = sha.length;
    sha256_end(&sha, digest);
    return failed;
}

int hash_command(int argc, char **argv) {
    struct sha256_engine engine = sha256_best_engine();
    int first = 0;
    for (; first < argc && argv[first][0] == '-' && argv[first][1] != '\0'; first++) {
        if (strcmp(argv[first], "--") == 0) {
            first++;
            break;
        }
        if (strcmp(argv[first], "--portable") != 0) usage_error("hash has no option %s", argv[first]);
        engine = sha256_portable_engine();
    }
    if (first == argc) usage_error("hash needs at least one file");
    int status = EXIT_SUCCESS;
    for (int i = first; i < argc; i++) {
        uint8_t digest[SHA256_BYTES];
        uint64_t size = 0;
        int failed = hash_file(argv[i], engine, digest, &size);
        if (failed) {
            printf("- %d %s\n", failed, argv[i]);
            status = EXIT_FAILURE;
        } else {
            char text[2 * SHA256_BYTES + 1];
            for (unsigned n = 0; n < SHA256_BYTES; n++) snprintf(text + 2 * n, 3, "%02x", digest[n]);
            printf("%s %llu %s\n", text, (unsigned long long)size, argv[i]);
        }
        fflush(stdout); /* the host shows how far it is */
    }
    return ferror(stdout) ? STATUS_FAILED : status;
}
