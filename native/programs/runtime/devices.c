#include "devices.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static size_t hash_of(const char *text) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return (size_t)(hash ^ hash >> 32);
}

size_t reference_device_count(void) {
    const char *text = getenv("OHFORGE_NNRT_DEVICES");
    int count = text ? atoi(text) : 0;
    if (count <= 0) return 0;
    return count > MAX_REFERENCE_DEVICES ? MAX_REFERENCE_DEVICES : (size_t)count;
}

const ReferenceDevice *reference_device(size_t index) {
    static ReferenceDevice devices[MAX_REFERENCE_DEVICES] = {
        {0, 1, "reference-cpu_ohforge_v2_0"},
        {0, 3, "reference-accelerator_ohforge_v2_0"},
    };
    if (index >= reference_device_count()) return NULL;
    devices[index].id = hash_of(devices[index].name);
    return &devices[index];
}

const ReferenceDevice *reference_device_by_id(size_t id) {
    for (size_t i = 0; i < reference_device_count(); i++)
        if (reference_device(i)->id == id) return reference_device(i);
    return NULL;
}

static bool listed(const char *list, const char *word) {
    size_t length = strlen(word);
    while (*list) {
        size_t here = strcspn(list, ", ");
        if (here == length && strncmp(list, word, length) == 0) return true;
        list += here;
        list += strspn(list, ", ");
    }
    return false;
}

bool reference_capability(const char *name) {
    const char *list = getenv("OHFORGE_NNRT_CAPABILITIES");
    return listed(list ? list : "fp16,performance,cache,dynamic", name);
}

bool reference_refuses(int operation) {
    const char *list = getenv("OHFORGE_NNRT_UNSUPPORTED");
    char number[16];
    snprintf(number, sizeof number, "%d", operation);
    return list && listed(list, number);
}

bool reference_falls_back(void) {
    const char *wanted = getenv("OHFORGE_NNRT_FALLBACK");
    return wanted && *wanted;
}

void reference_log(char level, const char *place, const char *text) {
    const char *path = getenv("OHFORGE_BOARD_LOG");
    char line[512], date[32] = "";
    struct timespec now;
    struct tm local;
    if (!path || !*path) return;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local)) strftime(date, sizeof date, "%m-%d %H:%M:%S", &local);
    int length = snprintf(line, sizeof line, "%s.%03ld %5ld %5ld %c %s: %s\n", date, now.tv_nsec / 1000000, (long)getpid(),
                          (long)getpid(), level, place, text);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return;
    /* One call, so that lines of several programs do not mix. */
    if (length > 0 && (size_t)length < sizeof line && write(file, line, (size_t)length) < 0) reference_note("no log");
    close(file);
}

void reference_note(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* A name from a file must not look like a line of its own. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20) *c = '?';
    fprintf(stderr, "ohforge-reference: %s\n", text);
}
