#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensors.h"

enum { PATH_BYTES = 1024, FILE_NAME_BYTES = 128 };

void print_head(const Options *options) {
    printf("engine: %s\n", engine_name());
    if (engine_is_reference())
        puts("REFERENCE RUNTIME: this is not MindSpore Lite; its times say nothing about a board's engine.");
    printf("api level: %d\n", OHFORGE_API_LEVEL);
    printf("model: %s\n", options->model);
    printf("device asked for: %s\n", options->device);
    printf("threads: %ld, fp16: %s\n", options->threads, options->half ? "yes" : "no");
}

static void print_summary(OH_AI_TensorHandle tensor, size_t index, size_t count) {
    char text[DESCRIPTION_BYTES];
    double sum = 0, least = (double)INFINITY, most = -(double)INFINITY;
    size_t strange = 0;
    for (size_t i = 0; i < count; i++) {
        double value = number_at(tensor, i);
        if (!isfinite(value)) {
            strange++;
            continue;
        }
        sum += value;
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    describe_tensor(tensor, text);
    printf("output %zu: %s, sum %.6g, least %.6g, most %.6g, not finite %zu\n", index, text, sum, least, most, strange);
}

static size_t count_of(OH_AI_TensorHandle tensor) {
    bool readable = OH_AI_TensorGetData(tensor) && type_size(OH_AI_TensorGetDataType(tensor));
    int64_t count = OH_AI_TensorGetElementNum(tensor);
    return readable && count > 0 ? (size_t)count : 0;
}

void print_outputs(const Session *session, const Options *options) {
    for (size_t i = 0; i < session->outputs.handle_num; i++) {
        OH_AI_TensorHandle tensor = session->outputs.handle_list[i];
        size_t count = count_of(tensor), shown = count < (size_t)options->values ? count : (size_t)options->values;
        print_summary(tensor, i, count);
        printf("Tensor name: %s, tensor size is %zu ,elements num: %zu.\n", OH_AI_TensorGetName(tensor),
               OH_AI_TensorGetDataSize(tensor), count);
        puts("output data is:");
        for (size_t k = 0; k < shown; k++) printf("%f ", number_at(tensor, k));
        putchar('\n');
    }
}

/* Line `wanted` of the file, without its end; empty when there is none. */
static void find_label(FILE *labels, size_t wanted, char *text, size_t bytes) {
    rewind(labels);
    text[0] = '\0';
    char line[256];
    for (size_t number = 0; fgets(line, sizeof line, labels); number++) {
        if (number != wanted) continue;
        line[strcspn(line, "\r\n")] = '\0';
        snprintf(text, bytes, "%s", line);
        return;
    }
}

static size_t count_lines(FILE *file) {
    size_t lines = 0;
    int character, last = '\n';
    while ((character = fgetc(file)) != EOF) lines += (last = character) == '\n';
    return lines + (last != '\n');
}

int print_top(const Session *session, const Options *options) {
    if (!options->top || session->outputs.handle_num == 0) return 0;
    OH_AI_TensorHandle tensor = session->outputs.handle_list[0];
    size_t count = count_of(tensor), shift = 0;
    FILE *labels = options->labels ? fopen(options->labels, "r") : NULL;
    if (options->labels && !labels) {
        fprintf(stderr, "mslite: %s: %s\n", options->labels, strerror(errno));
        return EXIT_INPUT;
    }
    if (labels && count_lines(labels) + 1 == count) {
        puts("labels: one fewer than there are classes, so class 0 is taken for the background");
        shift = 1;
    }
    bool *taken = calloc(count + 1, sizeof *taken);
    for (long place = 1; taken && place <= options->top && (size_t)place <= count; place++) {
        size_t best = count;
        for (size_t i = 0; i < count; i++)
            if (!taken[i] && (best == count || number_at(tensor, i) > number_at(tensor, best))) best = i;
        taken[best] = true;
        char label[256] = "";
        if (labels && best >= shift) find_label(labels, best - shift, label, sizeof label);
        printf("top %ld: class %zu, %.6f%s%s\n", place, best, number_at(tensor, best), label[0] ? ", " : "", label);
    }
    free(taken);
    if (labels) fclose(labels);
    return 0;
}

static int by_size(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

void print_times(const double *milliseconds, size_t count) {
    double *sorted = malloc(count * sizeof *sorted), sum = 0;
    if (!sorted) return;
    memcpy(sorted, milliseconds, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    for (size_t i = 0; i < count; i++) sum += sorted[i];
    double median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    printf("predict: %zu loops, mean %.3f ms, median %.3f ms, least %.3f ms, most %.3f ms\n", count, sum / (double)count,
           median, sorted[0], sorted[count - 1]);
    free(sorted);
}

static void write_text(FILE *file, const char *text) {
    fputc('"', file);
    for (; text && *text; text++) {
        unsigned char character = (unsigned char)*text;
        if (character == '"' || character == '\\')
            fprintf(file, "\\%c", character);
        else if (character < 0x20)
            fprintf(file, "\\u%04x", character);
        else
            fputc(character, file);
    }
    fputc('"', file);
}

/* Names such as Default/head-Sigmoid become part of a file name. */
static void file_name(OH_AI_TensorHandle tensor, size_t index, char text[FILE_NAME_BYTES]) {
    const char *name = OH_AI_TensorGetName(tensor);
    size_t used = (size_t)snprintf(text, FILE_NAME_BYTES, "%zu-", index);
    for (; name && *name && used < FILE_NAME_BYTES - 5; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
                     *name == '.' || *name == '_' || *name == '-';
        text[used++] = plain ? *name : '_';
    }
    memcpy(text + used, ".npy", 5);
}

static bool write_output(FILE *index, const char *folder, OH_AI_TensorHandle tensor, size_t number) {
    char name[FILE_NAME_BYTES], path[PATH_BYTES];
    size_t rank = 0, offset = 0;
    const int64_t *shape = OH_AI_TensorGetShape(tensor, &rank);
    file_name(tensor, number, name);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_BYTES) return false;
    if (!count_of(tensor)) {
        fprintf(stderr, "mslite: output %zu has no numbers that could be written\n", number);
        return false;
    }
    if (!write_npy(tensor, path, &offset)) return false;
    fprintf(index, "%s\n    {\"index\": %zu, \"name\": ", number ? "," : "", number);
    write_text(index, OH_AI_TensorGetName(tensor));
    fprintf(index, ", \"file\": \"%s\", \"type\": \"%s\", \"format\": \"%s\", \"shape\": [", name,
            type_name(OH_AI_TensorGetDataType(tensor)), format_name(OH_AI_TensorGetFormat(tensor)));
    for (size_t i = 0; i < rank; i++) fprintf(index, "%s%" PRId64, i ? ", " : "", shape[i]);
    fprintf(index, "], \"bytes\": %zu, \"offset\": %zu}", OH_AI_TensorGetDataSize(tensor), offset);
    return true;
}

int write_outputs(const Session *session, const Options *options, const double *milliseconds, size_t count) {
    char path[PATH_BYTES];
    if (!options->output) return 0;
    if (mkdir(options->output, 0755) != 0 && errno != EEXIST) {
        fprintf(stderr, "mslite: %s: %s\n", options->output, strerror(errno));
        return EXIT_OUTPUT;
    }
    bool fits = snprintf(path, sizeof path, "%s/outputs.json", options->output) < PATH_BYTES;
    FILE *index = fits ? fopen(path, "w") : NULL;
    if (!index) {
        fprintf(stderr, "mslite: %s: %s\n", path, strerror(errno));
        return EXIT_OUTPUT;
    }
    fputs("{\n  \"engine\": ", index);
    write_text(index, engine_name());
    fprintf(index, ",\n  \"reference\": %s,\n  \"load_ms\": %.3f,\n  \"loops_ms\": [",
            engine_is_reference() ? "true" : "false", session->load_ms);
    for (size_t i = 0; i < count; i++) fprintf(index, "%s%.3f", i ? ", " : "", milliseconds[i]);
    fputs("],\n  \"outputs\": [", index);
    bool good = true;
    for (size_t i = 0; good && i < session->outputs.handle_num; i++)
        good = write_output(index, options->output, session->outputs.handle_list[i], i);
    fputs("\n  ]\n}\n", index);
    good = !ferror(index) && good;
    if (fclose(index) == 0 && good) return 0;
    fprintf(stderr, "mslite: %s: the outputs could not be written whole\n", options->output);
    return EXIT_OUTPUT;
}
