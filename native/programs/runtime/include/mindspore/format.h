/* Layouts of tensors in the MindSpore Lite C API; the numbers stand in .ms files as well. 14 is not used. */
#ifndef OHFORGE_MINDSPORE_FORMAT_H
#define OHFORGE_MINDSPORE_FORMAT_H

typedef enum OH_AI_Format {
    OH_AI_FORMAT_NCHW = 0,
    OH_AI_FORMAT_NHWC = 1,
    OH_AI_FORMAT_NHWC4 = 2,
    OH_AI_FORMAT_HWKC = 3,
    OH_AI_FORMAT_HWCK = 4,
    OH_AI_FORMAT_KCHW = 5,
    OH_AI_FORMAT_CKHW = 6,
    OH_AI_FORMAT_KHWC = 7,
    OH_AI_FORMAT_CHWK = 8,
    OH_AI_FORMAT_HW = 9,
    OH_AI_FORMAT_HW4 = 10,
    OH_AI_FORMAT_NC = 11,
    OH_AI_FORMAT_NC4 = 12,
    OH_AI_FORMAT_NC4HW4 = 13,
    OH_AI_FORMAT_NCDHW = 15,
    OH_AI_FORMAT_NWC = 16,
    OH_AI_FORMAT_NCW = 17
} OH_AI_Format;

#endif
