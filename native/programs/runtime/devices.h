/* The NNRt devices that the reference runtimes pretend to have; there are none unless the environment says so.
 *
 * OHFORGE_NNRT_DEVICES       0 (default), 1 (a CPU) or 2 (a CPU and an accelerator)
 * OHFORGE_NNRT_CAPABILITIES  what they can: fp16, performance, priority, cache, dynamic, separated by commas
 *                            (default: all but priority, as the example driver of OpenHarmony)
 * OHFORGE_NNRT_UNSUPPORTED   numbers of operations that they refuse, separated by commas
 * OHFORGE_NNRT_FALLBACK      not empty: a whole .ms model falls back to the CPU, without an error, as MindSpore Lite does it
 * OHFORGE_BOARD_LOG          file to which a line of the board's log is added; only the emulated board sets it
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
bool reference_falls_back(void);

/* A line on standard error that says what the reference runtime did. Standard output belongs to the program. */
void reference_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of the board's log, as hilog prints it; nothing where there is no file for it. `place` is like C02102/MS_LITE. */
void reference_log(char level, const char *place, const char *text);

#ifdef __cplusplus
}
#endif
#endif
