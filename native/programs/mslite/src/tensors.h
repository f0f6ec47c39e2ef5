/* Tensors of the engine as a program sees them: what they are called, how they are filled, what is in them. */
#ifndef OHFORGE_MSLITE_TENSORS_H
#define OHFORGE_MSLITE_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mindspore/model.h>

enum { DESCRIPTION_BYTES = 512 };

const char *type_name(OH_AI_DataType type);   /* as NumPy says it; "unknown" */
const char *format_name(OH_AI_Format format); /* "NHWC" … */
const char *npy_type(OH_AI_DataType type);    /* "<f4" …; NULL when a .npy file cannot hold it */
size_t type_size(OH_AI_DataType type);        /* bytes of a number; 0 when unknown */

/* "NAME float32 1x224x224x3 NHWC 602112 bytes" */
void describe_tensor(OH_AI_TensorHandle tensor, char text[DESCRIPTION_BYTES]);
/* Number `index` as a double, whatever the type; NAN for types that are no numbers. */
double number_at(OH_AI_TensorHandle tensor, size_t index);

/* Numbers in [0, 1) for floats, all values for 8-bit types, 0 to 9 for the others. The generator is splitmix64, so
   that every C library gives the same. */
bool fill_from_seed(OH_AI_TensorHandle tensor, uint64_t seed);
/* Raw numbers, or .npy. False after a message on standard error. */
bool fill_from_file(OH_AI_TensorHandle tensor, const char *path);

/* Writes a .npy file; `data_offset` is where its numbers begin. False after a message on standard error. */
bool write_npy(OH_AI_TensorHandle tensor, const char *path, size_t *data_offset);

#endif
