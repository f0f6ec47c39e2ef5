/* The command line of mslite. */
#ifndef OHFORGE_MSLITE_OPTIONS_H
#define OHFORGE_MSLITE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_ASSIGNMENTS = 32 };

/* Exit statuses of our own; none of them is the low byte of an engine's status. */
enum {
    EXIT_USAGE = 64,
    EXIT_INPUT = 66,
    EXIT_NO_DEVICE = 69,
    EXIT_NO_MEMORY = 70,
    EXIT_OUTPUT = 73,
    EXIT_NO_MODEL = 255 /* As the quick-start program: it returns -1. */
};

/* WHICH=VALUE, or just VALUE for the next input in order. WHICH is a name or a number. */
typedef struct Assignment {
    const char *which; /* NULL: the next in order */
    size_t which_bytes;
    const char *value;
} Assignment;

typedef struct Options {
    const char *model, *output, *labels;
    const char *device; /* "cpu", "nnrt" or "nnrt:NAME" */
    Assignment inputs[MAX_ASSIGNMENTS], shapes[MAX_ASSIGNMENTS];
    size_t input_count, shape_count;
    long loops, warmup, threads, affinity, top, values, performance, priority;
    uint64_t seed;
    bool half, list_devices;
} Options;

/* 0 when all is well; else the exit status, after a message on standard error (help goes to standard output). */
int read_options(int count, char **words, Options *options, bool *stop);

#endif
