/* `follow`: SHA-256 of a file while it is being written, so that it is known as soon as the last byte is there.
 *
 * Prints "ready" (with --echo after what its standard input says, in one write); then for each whole step, and at the end, a line with an offset and the digest of all bytes before it;
 * and every second "there" and how many bytes the file has: so a link that stands still is told from a slow one.
 * When nothing is added for the idle time, or the file gets shorter: "stopped" and the offset, and status 1.
 * What was hashed is on its way to the storage at once, and all of it is there when this ends well. */
#include "agent.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (256 * 1024)
#define POLL_MS 2
#define SETTLE_US 20000 /* from the last change of the whole file to its last bytes: writes before them may be under way */
#define MOST_BYTES ((uint64_t)1 << 60)
#define TELL_US 1000000
#define NICE 2 /* the daemon, which writes the file, goes first */

struct follow {
    const char *name;
    uint64_t size; /* bytes that the file will have at its end */
    uint64_t step;
    uint64_t lag; /* bytes at the end that are not read while it grows: they may be written out of order */
    uint64_t idle_ms;
    bool echo;
};

static struct follow read_options(int argc, char **argv) {
    struct follow asked = {.step = 16 << 20, .lag = 8 << 20, .idle_ms = 20000};
    for (int i = 0; i < argc; i++) {
        const char *value;
        if ((value = option_value(argc, argv, &i, "--size")))
            asked.size = parse_number("--size", value, MOST_BYTES);
        else if ((value = option_value(argc, argv, &i, "--step")))
            asked.step = parse_number("--step", value, MOST_BYTES);
        else if ((value = option_value(argc, argv, &i, "--lag")))
            asked.lag = parse_number("--lag", value, MOST_BYTES);
        else if ((value = option_value(argc, argv, &i, "--idle")))
            asked.idle_ms = parse_number("--idle", value, UINT32_MAX);
        else if (strcmp(argv[i], "--echo") == 0)
            asked.echo = true;
        else if (argv[i][0] == '-')
            usage_error("follow has no option %s", argv[i]);
        else if (asked.name)
            usage_error("follow takes one file");
        else
            asked.name = argv[i];
    }
    if (!asked.name || asked.size == 0 || asked.step == 0) usage_error("follow needs a file, its --size and a --step");
    return asked;
}

static void tell(uint64_t offset, const struct sha256 *sha) {
    struct sha256 so_far = *sha;
    uint8_t digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];
    sha256_end(&so_far, digest);
    for (unsigned n = 0; n < SHA256_BYTES; n++) snprintf(text + 2 * n, 3, "%02x", digest[n]);
    printf("%llu %s\n", (unsigned long long)offset, text);
    fflush(stdout);
}

/* How far a file of which so much is there, and that was changed last at that moment, may be read. */
static uint64_t readable(const struct follow *asked, uint64_t there, uint64_t changed) {
    if (there >= asked->size && (asked->lag == 0 || now_us() - changed >= SETTLE_US)) return asked->size;
    return there > asked->lag ? there - asked->lag : 0;
}

/* Waits a moment; false when nobody reads the output any more. */
static bool wait_a_moment(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, POLL_MS) <= 0 || !(out.revents & (POLLERR | POLLNVAL));
}

/* Hashes what is there between `at` and `limit`, up to the next step; the new offset, or `at` when nothing could be read. */
static uint64_t take(int fd, const struct follow *asked, struct sha256 *sha, uint64_t at, uint64_t limit) {
    static uint8_t buffer[READ_BYTES];
    uint64_t next = at - at % asked->step + asked->step, until = limit < next ? limit : next;
    uint64_t wanted = until - at < READ_BYTES ? until - at : READ_BYTES;
    ssize_t count = pread(fd, buffer, (size_t)wanted, (off_t)at);
    if (count <= 0) return at;
    sha256_add(sha, buffer, (size_t)count);
    at += (uint64_t)count;
    bool whole = at == asked->size;
    /* Not the last step just before the end: over TCP the end would wait until that is acknowledged, 40 ms. */
    if (whole || (at == next && (limit < asked->size || asked->size - at >= asked->step))) tell(at, sha);
    /* Else the daemon, which ends with fsync, finds all of it still to be written. */
    if (at == next) sync_file_range(fd, (off_t)(at - asked->step), (off_t)asked->step, SYNC_FILE_RANGE_WRITE);
    return at;
}

int follow_command(int argc, char **argv) {
    struct follow asked = read_options(argc, argv);
    int fd = open(asked.name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fprintf(stderr, "ohforge-agent: %s: %s\n", asked.name, strerror(errno));
        return STATUS_FAILED;
    }
    setpriority(PRIO_PROCESS, 0, NICE);
    setvbuf(stdout, NULL, _IOFBF, BUFSIZ); /* else musl writes the first line by itself */
    for (int c; asked.echo && (c = getchar()) != EOF;) putchar(c);
    puts("ready");
    fflush(stdout);
    struct sha256 sha;
    sha256_begin(&sha, sha256_best_engine());
    uint64_t at = 0, most = 0, grown = now_us(), changed = grown, read_at = grown, told_at = grown;
    struct stat status;
    struct timespec written = {0};
    while (at < asked.size) {
        if (fstat(fd, &status) != 0 || (uint64_t)status.st_size < at) break;
        uint64_t there = (uint64_t)status.st_size;
        if (there > most) most = there, grown = now_us();
        if (status.st_mtim.tv_sec != written.tv_sec || status.st_mtim.tv_nsec != written.tv_nsec)
            written = status.st_mtim, changed = now_us();
        if (now_us() - told_at >= TELL_US) {
            printf("there %llu\n", (unsigned long long)there);
            fflush(stdout);
            told_at = now_us();
        }
        uint64_t limit = readable(&asked, there, changed), before = at;
        if (limit > at) at = take(fd, &asked, &sha, at, limit);
        if (at > before) {
            read_at = now_us();
            continue;
        }
        uint64_t since = read_at > grown ? read_at : grown;
        if (now_us() - since > asked.idle_ms * 1000 || !wait_a_moment()) break;
    }
    if (at == asked.size) fsync(fd);
    close(fd);
    if (at < asked.size) printf("stopped %llu\n", (unsigned long long)at);
    return fflush(stdout) != 0 ? STATUS_FAILED : at < asked.size ? EXIT_FAILURE : EXIT_SUCCESS;
}
