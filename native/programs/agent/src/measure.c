/* `measure FOLDER`: how fast the board copies memory, and reads a file from the storage of a folder.
 *
 * One JSON object: bytes a second of every pass. Memory is copied by one thread for each CPU; the file is written first,
 * loses its name at once, and its pages are dropped before each pass. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PASSES_MAX 16
#define THREADS_MAX 64
#define PASS_US 300000u
#define PIECE (1024u * 1024u)
#define GREATEST (1024ull * 1024 * 1024)

struct copier {
    pthread_t thread;
    pthread_barrier_t *start;
    uint8_t *from, *to;
    size_t length;
    uint64_t copied;
};

static void *copy_for_a_while(void *argument) {
    struct copier *copier = argument;
    pthread_barrier_wait(copier->start);
    uint64_t end = now_us() + PASS_US;
    do {
        for (size_t at = 0; at < copier->length; at += PIECE) {
            size_t length = copier->length - at < PIECE ? copier->length - at : PIECE;
            memcpy(copier->to + at, copier->from + at, length);
            copier->copied += length;
        }
    } while (now_us() < end);
    return NULL;
}

/* Bytes a second that `threads` copy together, each its part of the buffer; 0 when a thread cannot be had. */
static double copy_pass(uint8_t *buffer, size_t size, unsigned threads) {
    static struct copier copiers[THREADS_MAX];
    pthread_barrier_t start;
    size_t part = size / 2 / threads;
    uint64_t total = 0;
    if (pthread_barrier_init(&start, NULL, threads + 1) != 0) return 0;
    for (unsigned i = 0; i < threads; i++) {
        uint8_t *from = buffer + (size_t)i * 2 * part;
        copiers[i] = (struct copier){.start = &start, .from = from, .to = from + part, .length = part};
        /* Those that have been started wait at the barrier for ever: the program ends, and they with it. */
        if (pthread_create(&copiers[i].thread, NULL, copy_for_a_while, &copiers[i]) != 0) return 0;
    }
    pthread_barrier_wait(&start);
    uint64_t began = now_us();
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(copiers[i].thread, NULL);
        total += copiers[i].copied;
    }
    uint64_t took = now_us() - began;
    pthread_barrier_destroy(&start);
    return (double)total * 1e6 / (double)(took ? took : 1);
}

/* A file without a name, of bytes that no file system makes smaller; -1 with errno set. */
static int make_file(const char *folder, uint64_t size) {
    static uint8_t piece[PIECE];
    char path[512];
    snprintf(path, sizeof path, "%s/.ohforge-measure-%ld", folder, (long)getpid());
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    unlink(path);
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (uint64_t written = 0; written < size;) {
        for (size_t at = 0; at < sizeof piece; at += sizeof state) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(piece + at, &state, sizeof state);
        }
        size_t length = size - written < sizeof piece ? (size_t)(size - written) : sizeof piece;
        ssize_t count = write(fd, piece, length);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        written += (uint64_t)count;
    }
    return fsync(fd) == 0 ? fd : -1;
}

/* Share of the file's pages that are in memory; -1 when that cannot be told. */
static double cached_share(int fd, uint64_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)((size + page - 1) / page), there = 0;
    unsigned char *seen = malloc(pages);
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    bool told = seen && map != MAP_FAILED && mincore(map, (size_t)size, seen) == 0;
    for (size_t i = 0; told && i < pages; i++) there += seen[i] & 1;
    if (map != MAP_FAILED) munmap(map, (size_t)size);
    free(seen);
    return told ? (double)there / (double)pages : -1;
}

/* Bytes a second of reading the file from begin to end; 0 with errno set. */
static double read_pass(int fd) {
    static uint8_t piece[PIECE];
    uint64_t total = 0, began = now_us();
    if (lseek(fd, 0, SEEK_SET) != 0) return 0;
    for (;;) {
        ssize_t count = read(fd, piece, sizeof piece);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return 0;
        if (count == 0) break;
        total += (uint64_t)count;
    }
    uint64_t took = now_us() - began;
    return (double)total * 1e6 / (double)(took ? took : 1);
}

static void print_rates(const char *name, const double *rates, unsigned count) {
    printf("\"%s\":[", name);
    for (unsigned i = 0; i < count; i++) printf("%s%.0f", i ? "," : "", rates[i]);
    printf("],");
}

int measure_command(int argc, char **argv) {
    uint64_t buffer_size = 64ull * 1024 * 1024, file_size = 64ull * 1024 * 1024, passes = 3;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = online > 0 && online < THREADS_MAX ? (uint64_t)online : 1;
    int first = 0;
    for (; first < argc && argv[first][0] == '-'; first++) {
        const char *value;
        if ((value = option_value(argc, argv, &first, "--buffer")))
            buffer_size = parse_number("--buffer", value, GREATEST);
        else if ((value = option_value(argc, argv, &first, "--file")))
            file_size = parse_number("--file", value, GREATEST);
        else if ((value = option_value(argc, argv, &first, "--passes")))
            passes = parse_number("--passes", value, PASSES_MAX);
        else if ((value = option_value(argc, argv, &first, "--threads")))
            threads = parse_number("--threads", value, THREADS_MAX);
        else
            usage_error("measure has no option %s", argv[first]);
    }
    if (first + 1 != argc) usage_error("measure needs one folder");
    if (!passes || !threads || file_size < PIECE || buffer_size < threads * 2 * PIECE)
        usage_error("measure needs a pass, a thread, a file of 1 MiB and a buffer of 2 MiB for each thread");

    double copied[PASSES_MAX], read_rates[PASSES_MAX], cached = 0;
    unsigned copies = 0, reads = 0;
    int failed = 0;
    uint8_t *buffer = malloc((size_t)buffer_size);
    if (buffer) {
        memset(buffer, 1, (size_t)buffer_size); /* else all pages to read from are the kernel's one page of zeros */
        while (copies < passes && (copied[copies] = copy_pass(buffer, (size_t)buffer_size, (unsigned)threads)) > 0)
            copies++;
        free(buffer);
    }
    int fd = make_file(argv[first], file_size);
    if (fd < 0) failed = errno;
    while (fd >= 0 && reads < passes) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        double share = cached_share(fd, file_size);
        if (share > cached || share < 0) cached = share;
        if ((read_rates[reads] = read_pass(fd)) <= 0) {
            failed = errno;
            break;
        }
        reads++;
    }
    printf("{\"threads\":%u,\"buffer_bytes\":%llu,\"file_bytes\":%llu,", (unsigned)threads,
           (unsigned long long)buffer_size, (unsigned long long)file_size);
    print_rates("copied", copied, copies);
    print_rates("read", read_rates, reads);
    printf("\"cached\":%.4f,\"errno\":%d}\n", cached, failed);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : STATUS_FAILED;
}
