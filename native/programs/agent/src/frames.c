#include "frames.h"

#include "agent.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t crc_table[256];

/* CRC-32 as in zlib and PNG: polynomial 0x04c11db7, reflected. */
static void make_crc_table(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t value = n;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ value >> 1 : value >> 1;
        crc_table[n] = value;
    }
}

static uint32_t crc_add(uint32_t crc, const uint8_t *data, size_t length) {
    while (length-- > 0) crc = crc_table[(crc ^ *data++) & 0xff] ^ crc >> 8;
    return crc;
}

static void put_little_endian(uint8_t *at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void frames_begin(struct frames *frames, int fd) {
    make_crc_table();
    frames->fd = fd;
    frames->began = frames->last_progress = now_us();
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
    uint32_t crc = crc_add(crc_add(0xffffffff, header, 24), header + FRAME_HEADER, length);
    put_little_endian(header + 24, ~crc, 4);
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
