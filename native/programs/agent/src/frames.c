#include "frames.h"

#include "agent.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void put_little_endian(uint8_t *at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void frames_begin(struct frames *frames, int fd) {
    frames->fd = fd;
    frames->began = frames->last_progress = now_us();
}

bool frames_make_key(uint8_t key[FRAME_KEY], char text[2 * FRAME_KEY + 1]) {
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool made = read(fd, key, FRAME_KEY) == FRAME_KEY;
    close(fd);
    for (unsigned n = 0; n < FRAME_KEY; n++) snprintf(text + 2 * n, 3, "%02x", key[n]);
    return made;
}

void frames_use_key(struct frames *frames, const uint8_t key[FRAME_KEY]) { memcpy(frames->key, key, FRAME_KEY); }

/* The begin of the SHA-256 of key, header and payload. Only a part of the digest is shown, so none can be lengthened. */
static void put_tag(const struct frames *frames, uint8_t *header, size_t length) {
    struct sha256 sha;
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&sha, sha256_best_engine());
    sha256_add(&sha, frames->key, FRAME_KEY);
    sha256_add(&sha, header, FRAME_HEADER - FRAME_TAG);
    sha256_add(&sha, header + FRAME_HEADER, length);
    sha256_end(&sha, digest);
    memcpy(header + FRAME_HEADER - FRAME_TAG, digest, FRAME_TAG);
}

static void move_to_front(struct frames *frames) {
    memmove(frames->buffer, frames->buffer + frames->start, frames->end - frames->start);
    frames->end -= frames->start;
    frames->start = 0;
}

size_t frames_room(struct frames *frames) {
    if (FRAMES_BUFFER - frames->end < FRAME_HEADER + FRAME_PAYLOAD && frames->start > 0) move_to_front(frames);
    size_t left = FRAMES_BUFFER - frames->end;
    if (left <= FRAME_HEADER) return 0;
    return left - FRAME_HEADER < FRAME_PAYLOAD ? left - FRAME_HEADER : FRAME_PAYLOAD;
}

bool frames_put(struct frames *frames, enum frame_type type, const void *payload, size_t length) {
    if (frames->broken) return true; /* nobody misses it */
    if (frames_room(frames) < length) return false;
    uint8_t *header = frames->buffer + frames->end;
    memcpy(header, "\xf5OHF", 4);
    header[4] = (uint8_t)type;
    memset(header + 5, 0, 3);
    put_little_endian(header + 8, length, 4);
    put_little_endian(header + 12, frames->sequence++, 4);
    put_little_endian(header + 16, now_us() - frames->began, 8);
    memcpy(header + FRAME_HEADER, payload, length);
    put_tag(frames, header, length);
    frames->end += FRAME_HEADER + length;
    return true;
}

bool frames_text(struct frames *frames, enum frame_type type, const char *format, ...) {
    static char text[16384];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return frames_put(frames, type, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

bool frames_waiting(const struct frames *frames) { return !frames->broken && frames->end > frames->start; }

bool frames_read(const struct frames *frames) {
    int left = 0;
    if (ioctl(frames->fd, TIOCOUTQ, &left) != 0 && ioctl(frames->fd, FIONREAD, &left) != 0) return true;
    return left == 0;
}

/* The descriptor stays in blocking mode, because it is shared with the shell that started us. A pipe that poll
 * calls writable takes PIPE_BUF bytes without blocking, and so does a socket. */
void frames_write(struct frames *frames) {
    struct pollfd out = {.fd = frames->fd, .events = POLLOUT};
    while (frames_waiting(frames) && poll(&out, 1, 0) == 1) {
        if (out.revents & (POLLERR | POLLNVAL)) {
            frames->broken = true;
            return;
        }
        size_t length = frames->end - frames->start;
        ssize_t written = write(frames->fd, frames->buffer + frames->start, length < PIPE_BUF ? length : PIPE_BUF);
        if (written < 0) {
            frames->broken = errno != EINTR && errno != EAGAIN;
            return;
        }
        frames->start += (size_t)written;
        frames->last_progress = now_us();
    }
    if (frames->start == frames->end) frames->start = frames->end = 0;
}
