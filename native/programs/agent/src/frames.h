/* The stream of frames on the agent's standard output; docs/agent.md describes it byte by byte. */
#ifndef OHFORGE_FRAMES_H
#define OHFORGE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER 32
#define FRAME_TAG 8 /* bytes at the header's end that only who has the key can make */
#define FRAME_KEY 32
#define FRAME_PAYLOAD 32768           /* the most that one frame carries */
#define FRAMES_BUFFER (8 * FRAME_PAYLOAD) /* what may wait for a reader that is slow */

enum frame_type {
    FRAME_HELLO = 'H',
    FRAME_PINNED = 'P', /* clocks that were fixed */
    FRAME_UNPINNED = 'U', /* they were set back */
    FRAME_STARTED = 'S',
    FRAME_FAILED = 'F',
    FRAME_STDOUT = 'o',
    FRAME_STDERR = 'e',
    FRAME_SAMPLED = 'd', /* names of what the samples are of */
    FRAME_SAMPLE = 's',
    FRAME_END = 'X',
};

struct frames {
    int fd;
    bool broken; /* nobody reads any more */
    uint32_t sequence;
    uint64_t began; /* microseconds */
    uint64_t last_progress;
    uint8_t key[FRAME_KEY]; /* zeros until frames_use_key */
    size_t start, end; /* the bytes of `buffer` that wait */
    uint8_t buffer[FRAMES_BUFFER];
};

void frames_begin(struct frames *frames, int fd);
/* Bytes that the payload of one further frame may have; 0 when the buffer is full. */
size_t frames_room(struct frames *frames);
/* Makes a key that nobody can guess, and its text in hexadecimal digits; false when the board has no random numbers. */
bool frames_make_key(uint8_t key[FRAME_KEY], char text[2 * FRAME_KEY + 1]);
/* All further frames carry tags that are made with the key. */
void frames_use_key(struct frames *frames, const uint8_t key[FRAME_KEY]);
/* Queues a frame; false when there is no room for it. */
bool frames_put(struct frames *frames, enum frame_type type, const void *payload, size_t length);
/* As frames_put with a printf-like text, which must be shorter than 16 kB. */
bool frames_text(struct frames *frames, enum frame_type type, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool frames_waiting(const struct frames *frames);
/* Whether everything that was written has been read at the other end, as far as the kernel tells. */
bool frames_read(const struct frames *frames);
/* Writes as much as can be written without blocking. */
void frames_write(struct frames *frames);

#endif
