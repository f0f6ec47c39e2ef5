/* Stand-in for libhilog_ndk: what is logged goes to standard error; the privacy marks of formats are taken out. */
#include <stdio.h>
#include <string.h>

#include "hilog.h"

static const char *const marks[] = {"{public}", "{private}"};

static void without_marks(char *target, size_t size, const char *format) {
    size_t used = 0;
    while (*format != '\0' && used + 1 < size) {
        if (format[0] == '{' && used > 0 && target[used - 1] == '%') {
            for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
                if (strncmp(format, marks[i], strlen(marks[i])) == 0) {
                    format += strlen(marks[i]);
                    break;
                }
        }
        if (*format != '\0')
            target[used++] = *format++;
    }
    target[used] = '\0';
}

int OH_LOG_Print(LogType type, LogLevel level, unsigned int domain, const char *tag, const char *format, ...) {
    char plain[4096];
    char text[4096];
    va_list arguments;
    (void)type;
    without_marks(plain, sizeof plain, format);
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, plain, arguments);
    va_end(arguments);
    fprintf(stderr, "%c A%05x/%s: %s\n", "???DIWEF"[level & 7], domain & 0xfffffu, tag ? tag : "", text);
    return length;
}

bool OH_LOG_IsLoggable(unsigned int domain, const char *tag, LogLevel level) {
    (void)domain;
    (void)tag;
    return level >= LOG_DEBUG && level <= LOG_FATAL;
}
