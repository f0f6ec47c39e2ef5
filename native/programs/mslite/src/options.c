#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "usage: mslite [OPTIONS] MODEL.ms\n"
    "Runs a MindSpore Lite model and prints what goes in, what comes out, and how long it takes.\n\n"
    "  --input [WHICH=]FILE   .npy or raw numbers for an input; WHICH is its name or number (default: in order)\n"
    "  --shape [WHICH=]AxBxC  shape of an input whose dimensions the model leaves open\n"
    "  --seed N               inputs without a file get numbers of our own generator (default 1)\n"
    "  --loops N              timed runs (default 1)\n"
    "  --warmup N             runs before them that are not counted (default 0)\n"
    "  --threads N            threads of the engine (default 2)\n"
    "  --affinity WHERE       none, big or little (default none)\n"
    "  --fp16[=on|off]        let the engine compute in half precision\n"
    "  --device WHAT          cpu, nnrt or nnrt:NAME (default cpu)\n"
    "  --performance LEVEL    none, low, medium, high or extreme, for NNRt (API 10)\n"
    "  --priority LEVEL       none, low, medium or high, for NNRt (API 10)\n"
    "  --output DIR           write every output as .npy, and outputs.json about them\n"
    "  --top K                print the K largest values of the first output\n"
    "  --labels FILE          one name a line for --top\n"
    "  --values N             numbers printed of every output (default 51, as the quick-start program)\n"
    "  --list-devices         print the NNRt devices and end\n";

static const char *const AFFINITIES[] = {"none", "big", "little", NULL};
static const char *const PERFORMANCES[] = {"none", "low", "medium", "high", "extreme", NULL};
static const char *const PRIORITIES[] = {"none", "low", "medium", "high", NULL};

static int complain(const char *what, const char *about) {
    fprintf(stderr, "mslite: %s: %s (mslite --help says more)\n", what, about);
    return EXIT_USAGE;
}

static int take_number(const char *name, const char *text, long least, long most, long *value) {
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (errno || end == text || *end || *value < least || *value > most) return complain("not a fitting number", name);
    return 0;
}

static int take_seed(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno || end == text || *end || *text == '-' ? complain("not a fitting number", "--seed") : 0;
}

static int take_word(const char *name, const char *text, const char *const *words, long *value) {
    for (*value = 0; words[*value]; ++*value)
        if (strcmp(words[*value], text) == 0) return 0;
    return complain("not one of the words it takes", name);
}

/* A file's own name may have an equals sign in it. */
static bool is_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static int take_assignment(const char *name, const char *text, Assignment *list, size_t *count) {
    if (*count == MAX_ASSIGNMENTS) return complain("given too often", name);
    const char *equals = is_file(text) ? NULL : strchr(text, '=');
    Assignment *next = &list[(*count)++];
    next->which = equals ? text : NULL;
    next->which_bytes = equals ? (size_t)(equals - text) : 0;
    next->value = equals ? equals + 1 : text;
    return *next->value ? 0 : complain("nothing after the sign", name);
}

static int take_device(const char *text, const char **device) {
    *device = text;
    bool known = strcmp(text, "cpu") == 0 || strcmp(text, "nnrt") == 0 || (strncmp(text, "nnrt:", 5) == 0 && text[5]);
    return known ? 0 : complain("must be cpu, nnrt or nnrt:NAME", "--device");
}

static int take_value(Options *o, const char *name, const char *text) {
    if (strcmp(name, "--input") == 0) return take_assignment(name, text, o->inputs, &o->input_count);
    if (strcmp(name, "--shape") == 0) return take_assignment(name, text, o->shapes, &o->shape_count);
    if (strcmp(name, "--seed") == 0) return take_seed(text, &o->seed);
    if (strcmp(name, "--loops") == 0) return take_number(name, text, 1, 1000000, &o->loops);
    if (strcmp(name, "--warmup") == 0) return take_number(name, text, 0, 1000000, &o->warmup);
    if (strcmp(name, "--threads") == 0) return take_number(name, text, 1, 64, &o->threads);
    if (strcmp(name, "--top") == 0) return take_number(name, text, 1, 1000, &o->top);
    if (strcmp(name, "--values") == 0) return take_number(name, text, 0, 100000000, &o->values);
    if (strcmp(name, "--affinity") == 0) return take_word(name, text, AFFINITIES, &o->affinity);
    if (strcmp(name, "--performance") == 0) return take_word(name, text, PERFORMANCES, &o->performance);
    if (strcmp(name, "--priority") == 0) return take_word(name, text, PRIORITIES, &o->priority);
    if (strcmp(name, "--device") == 0) return take_device(text, &o->device);
    if (strcmp(name, "--output") == 0) return o->output = text, 0;
    if (strcmp(name, "--labels") == 0) return o->labels = text, 0;
    return complain("unknown option", name);
}

int read_options(int count, char **words, Options *o, bool *stop) {
    *o = (Options){.device = "cpu", .loops = 1, .threads = 2, .values = 51, .seed = 1};
    *stop = false;
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        if (strcmp(word, "--help") == 0) {
            fputs(HELP, stdout);
            *stop = true;
            return 0;
        }
        if (strcmp(word, "--fp16") == 0 || strcmp(word, "--fp16=on") == 0) {
            o->half = true;
        } else if (strcmp(word, "--fp16=off") == 0) {
            o->half = false;
        } else if (strcmp(word, "--list-devices") == 0) {
            o->list_devices = true;
        } else if (strncmp(word, "--", 2) == 0) {
            if (i + 1 == count) return complain("nothing follows", word);
            int status = take_value(o, word, words[++i]);
            if (status) return status;
        } else if (o->model) {
            return complain("there is a second model", word);
        } else {
            o->model = word;
        }
    }
    if (o->model || o->list_devices) return 0;
    puts("Model file must be provided.");
    return EXIT_NO_MODEL;
}
