/* Files of numbers: raw, and NumPy's .npy (format version 1 to 3: magic, header length, a dict in text, the numbers). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

static const char MAGIC[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

typedef struct NpyHeader {
    char type[8];
    bool fortran;
    size_t rank;
    int64_t shape[32];
} NpyHeader;

static bool complain(const char *path, const char *what) {
    fprintf(stderr, "mslite: %s: %s\n", path, what);
    return false;
}

static char *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain(path, strerror(errno));
        return NULL;
    }
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = length >= 0 && fseek(file, 0, SEEK_SET) == 0 ? malloc((size_t)length + 1) : NULL;
    *size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
    if (!bytes || *size != (size_t)length) {
        complain(path, "cannot be read");
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* `text` is the dict, ended by NUL: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), } */
static bool parse_header(const char *text, NpyHeader *header) {
    const char *type = strstr(text, "'descr':"), *order = strstr(text, "'fortran_order':"), *shape = strstr(text, "'shape':");
    if (!type || !order || !shape) return false;
    type = strchr(type + 8, '\'');
    if (!type) return false;
    size_t length = strcspn(type + 1, "'");
    if (length >= sizeof header->type) return false;
    memcpy(header->type, type + 1, length);
    header->type[length] = '\0';
    header->fortran = strncmp(order + 16 + strspn(order + 16, " "), "True", 4) == 0;
    shape = strchr(shape + 8, '(');
    if (!shape) return false;
    for (shape++, header->rank = 0; *shape && *shape != ')';) {
        char *end;
        int64_t size = strtoll(shape, &end, 10);
        if (end == shape || size < 0 || header->rank == 32) return false;
        header->shape[header->rank++] = size;
        shape = end + strspn(end, ", L");
    }
    return *shape == ')';
}

/* Finds the numbers behind the header. */
static bool read_header(char *bytes, size_t size, NpyHeader *header, size_t *offset) {
    if (size < 12) return false;
    unsigned char *u = (unsigned char *)bytes;
    bool wide = u[6] >= 2;
    size_t length = u[8] | (size_t)u[9] << 8, start = wide ? 12 : 10;
    if (wide) length |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (u[6] < 1 || u[6] > 3 || length < 2 || length > size - start) return false;
    *offset = start + length;
    bytes[*offset - 1] = '\0'; /* The header's last character is a newline. */
    return parse_header(bytes + start, header);
}

static void shape_text(const int64_t *shape, size_t rank, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < rank && used + 24 < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i ? "x" : "", shape[i]);
}

/* Dimensions of 1 in front do not matter: one image may stand for a batch of one. */
static bool same_shape(const int64_t *a, size_t rank_a, const int64_t *b, size_t rank_b) {
    while (rank_a && *a == 1) a++, rank_a--;
    while (rank_b && *b == 1) b++, rank_b--;
    return rank_a == rank_b && memcmp(a, b, rank_a * sizeof *a) == 0;
}

static bool check_shape(OH_AI_TensorHandle tensor, const NpyHeader *header, const char *path) {
    size_t rank = 0;
    const int64_t *shape = OH_AI_TensorGetShape(tensor, &rank);
    if (same_shape(header->shape, header->rank, shape, rank)) return true;
    char have[200], want[200];
    shape_text(header->shape, header->rank, have, sizeof have);
    shape_text(shape, rank, want, sizeof want);
    bool turned = header->rank == 4 && rank == 4 && header->shape[1] == shape[3] && header->shape[2] == shape[1] &&
                  header->shape[3] == shape[2];
    fprintf(stderr, "mslite: %s: has shape %s, but input %s needs %s%s\n", path, have, OH_AI_TensorGetName(tensor), want,
            turned ? " (the file is NCHW, the model takes NHWC: transpose it)" : "");
    return false;
}

static bool take_npy(OH_AI_TensorHandle tensor, const char *path, char *bytes, size_t size) {
    NpyHeader header;
    size_t offset, need = OH_AI_TensorGetDataSize(tensor);
    const char *type = npy_type(OH_AI_TensorGetDataType(tensor));
    if (!read_header(bytes, size, &header, &offset)) return complain(path, "is a .npy file with a damaged header");
    if (header.fortran) return complain(path, "is stored column by column; save a C-contiguous array");
    if (!type || (strcmp(type, header.type) != 0 && !(header.type[0] == '=' && strcmp(type + 1, header.type + 1) == 0))) {
        fprintf(stderr, "mslite: %s: holds %s, but input %s needs %s (%s)\n", path, header.type,
                OH_AI_TensorGetName(tensor), type ? type : "?", type_name(OH_AI_TensorGetDataType(tensor)));
        return false;
    }
    if (!check_shape(tensor, &header, path)) return false;
    if (size - offset != need) return complain(path, "is cut short or has more numbers than its header says");
    memcpy(OH_AI_TensorGetMutableData(tensor), bytes + offset, need);
    return true;
}

static bool take_raw(OH_AI_TensorHandle tensor, const char *path, const char *bytes, size_t size) {
    size_t need = OH_AI_TensorGetDataSize(tensor);
    if (size != need) {
        fprintf(stderr, "mslite: %s: has %zu bytes, but input %s needs %zu\n", path, size, OH_AI_TensorGetName(tensor), need);
        return false;
    }
    memcpy(OH_AI_TensorGetMutableData(tensor), bytes, need);
    return true;
}

bool fill_from_file(OH_AI_TensorHandle tensor, const char *path) {
    size_t size;
    if (!OH_AI_TensorGetMutableData(tensor)) return complain(path, "the engine gives its input no room");
    char *bytes = read_whole(path, &size);
    if (!bytes) return false;
    bool npy = size >= sizeof MAGIC && memcmp(bytes, MAGIC, sizeof MAGIC) == 0;
    bool good = npy ? take_npy(tensor, path, bytes, size) : take_raw(tensor, path, bytes, size);
    free(bytes);
    return good;
}

bool write_npy(OH_AI_TensorHandle tensor, const char *path, size_t *data_offset) {
    enum { HEADER = 128 * 3 };
    size_t rank = 0, used;
    const int64_t *shape = OH_AI_TensorGetShape(tensor, &rank);
    char header[HEADER + 1];
    used = (size_t)snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                            npy_type(OH_AI_TensorGetDataType(tensor)));
    for (size_t i = 0; i < rank && used < HEADER - 40; i++)
        used += (size_t)snprintf(header + used, sizeof header - used, "%" PRId64 ", ", shape[i]);
    used += (size_t)snprintf(header + used, sizeof header - used, "), }");
    size_t length = (10 + used + 1 + 63) / 64 * 64 - 10; /* The numbers begin at a multiple of 64. */
    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length, (unsigned char)(length >> 8)};
    FILE *file = fopen(path, "wb");
    if (!file) return complain(path, strerror(errno));
    size_t bytes = OH_AI_TensorGetDataSize(tensor);
    fwrite(start, 1, sizeof start, file);
    fprintf(file, "%s%*s\n", header, (int)(length - used - 1), "");
    fwrite(OH_AI_TensorGetData(tensor), 1, bytes, file);
    bool good = !ferror(file);
    if (fclose(file) != 0 || !good) return complain(path, "cannot be written whole (is the disk full?)");
    *data_offset = 10 + length;
    return true;
}
