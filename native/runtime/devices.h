/* The NNRt devices that the reference runtimes pretend to have; there are none unless the environment says so.
 *
 * OHFORGE_NNRT_DEVICES       0 (default), 1 (a CPU) or 2 (a CPU and an accelerator)
 * OHFORGE_NNRT_CAPABILITIES  what they can: fp16, performance, priority, cache, dynamic, separated by commas
 *                            (default: all but priority, as the example driver of OpenHarmony)
 * OHFORGE_NNRT_UNSUPPORTED   numbers of operations that they refuse, separated by commas
 */
#ifndef OHFORGE_DEVICES_H
#define OHFORGE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_REFERENCE_DEVICES = 2 };

typedef struct ReferenceDevice {
    size_t id; /* A hash of the name, as on a board: never a constant, 32 bits wide on arm32. */
    int type;  /* 1 CPU, 3 accelerator */
    const char *name;
} ReferenceDevice;

size_t reference_device_count(void);
/* NULL when there is no such device. */
const ReferenceDevice *reference_device(size_t index);
const ReferenceDevice *reference_device_by_id(size_t id);
bool reference_capability(const char *name);
bool reference_refuses(int operation);

/* A line on standard error that says what the reference runtime did. Standard output belongs to the program. */
void reference_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
