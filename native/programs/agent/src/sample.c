#include "sample.h"

#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCES_MAX 64
#define NAME_MAX_BYTES 48

/* One file that holds a number. It stays open: reading costs one system call. */
struct source {
    int fd;
    char name[NAME_MAX_BYTES];
};

struct group {
    struct source sources[SOURCES_MAX];
    unsigned count;
};

static struct group temperatures, cpu_frequencies, other_frequencies;
static int memory_fd = -1, resident_fd = -1, faults_fd = -1, read_fd = -1;

static ssize_t read_text(int fd, char *text, size_t capacity) {
    ssize_t length = pread(fd, text, capacity - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

/* Puts only what needs no escape in JSON. */
static void copy_name(char *target, const char *name) {
    size_t length = 0;
    for (; *name && length < NAME_MAX_BYTES - 1; name++)
        if (isalnum((unsigned char)*name) || strchr("_-.:", *name)) target[length++] = *name;
    target[length] = '\0';
}

static void add_source(struct group *group, const char *folder, const char *entry, const char *file, const char *name) {
    char path[320], text[64];
    snprintf(path, sizeof path, "%s/%s/%s", folder, entry, file);
    int fd = group->count < SOURCES_MAX ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    if (read_text(fd, text, sizeof text) <= 0) { /* a sensor that is switched off answers with an error */
        close(fd);
        return;
    }
    struct source *source = &group->sources[group->count++];
    source->fd = fd;
    copy_name(source->name, name);
}

static int by_number(const struct dirent **first, const struct dirent **second) {
    size_t a = strlen((*first)->d_name), b = strlen((*second)->d_name);
    return a != b ? (a > b) - (a < b) : strcmp((*first)->d_name, (*second)->d_name);
}

/* Adds `file` of every entry of `folder` whose name is `prefix` and a number (any name when `prefix` is empty).
 * What it is called stands in `label` beside it; without that it is called like the entry. */
static void add_sources(struct group *group, const char *folder, const char *prefix, const char *file,
                        const char *label) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, by_number);
    for (int i = 0; i < count; i++) {
        const char *entry = entries[i]->d_name;
        size_t length = strlen(prefix);
        bool wanted = entry[0] != '.' && strncmp(entry, prefix, length) == 0;
        if (wanted && (!length || isdigit((unsigned char)entry[length]))) {
            char path[320], name[64] = "";
            snprintf(path, sizeof path, "%s/%s/%s", folder, entry, label ? label : "");
            int fd = label ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (fd >= 0) {
                read_text(fd, name, sizeof name);
                close(fd);
            }
            add_source(group, folder, entry, file, name[0] > ' ' ? name : entry);
        }
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

struct text {
    char bytes[8192];
    size_t length;
};

static void append(struct text *text, const char *word) {
    size_t length = strlen(word);
    if (length < sizeof text->bytes - text->length) {
        memcpy(text->bytes + text->length, word, length + 1);
        text->length += length;
    }
}

static void append_names(struct text *text, const char *key, const struct group *group) {
    append(text, key);
    for (unsigned i = 0; i < group->count; i++) {
        append(text, i ? ",\"" : "[\"");
        append(text, group->sources[i].name);
        append(text, "\"");
    }
    append(text, group->count ? "]" : "[]");
}

static void append_values(struct text *text, const char *key, const struct group *group) {
    append(text, key);
    for (unsigned i = 0; i < group->count; i++) {
        char content[64], number[32] = "null", *end;
        if (read_text(group->sources[i].fd, content, sizeof content) > 0) {
            long long value = strtoll(content, &end, 10);
            if (end != content) snprintf(number, sizeof number, "%lld", value);
        }
        append(text, i ? "," : "[");
        append(text, number);
    }
    append(text, group->count ? "]" : "[]");
}

void sample_begin(struct frames *frames, pid_t program) {
    char path[64];
    add_sources(&temperatures, "/sys/class/thermal", "thermal_zone", "temp", "type");
    add_sources(&cpu_frequencies, "/sys/devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq", NULL);
    add_sources(&other_frequencies, "/sys/class/devfreq", "", "cur_freq", NULL);
    memory_fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/statm", (int)program);
    resident_fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)program);
    faults_fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/io", (int)program);
    read_fd = open(path, O_RDONLY | O_CLOEXEC);
    static struct text text;
    append_names(&text, "{\"temperatures\":", &temperatures);
    append_names(&text, ",\"cpu_frequencies\":", &cpu_frequencies);
    append_names(&text, ",\"other_frequencies\":", &other_frequencies);
    append(&text, "}");
    frames_put(frames, FRAME_SAMPLED, text.bytes, text.length);
}

static unsigned long long available_memory_kb(void) {
    char content[2048];
    unsigned long long kilobytes = 0;
    if (memory_fd < 0 || read_text(memory_fd, content, sizeof content) <= 0) return 0;
    const char *line = strstr(content, "MemAvailable:");
    if (line) sscanf(line, "MemAvailable: %llu", &kilobytes);
    return kilobytes;
}

static unsigned long long resident_kb(void) {
    char content[128];
    unsigned long long pages = 0;
    if (resident_fd < 0 || read_text(resident_fd, content, sizeof content) <= 0) return 0;
    sscanf(content, "%*u %llu", &pages);
    return pages * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024;
}

/* Field 12 of /proc/PID/stat, counted behind the name, which may have blanks in it; "null" when it is not there. */
static void put_faults(char number[32]) {
    char content[1024];
    unsigned long long faults;
    strcpy(number, "null");
    if (faults_fd < 0 || read_text(faults_fd, content, sizeof content) <= 0) return;
    const char *after_name = strrchr(content, ')');
    if (after_name && sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %llu", &faults) == 1)
        snprintf(number, 32, "%llu", faults);
}

/* What the kernel has fetched from storage for the program, page faults included. */
static void put_read_bytes(char number[32]) {
    char content[512];
    unsigned long long bytes;
    strcpy(number, "null");
    if (read_fd < 0 || read_text(read_fd, content, sizeof content) <= 0) return;
    const char *line = strstr(content, "\nread_bytes: ");
    if (line && sscanf(line, " read_bytes: %llu", &bytes) == 1) snprintf(number, 32, "%llu", bytes);
}

bool sample_put(struct frames *frames) {
    static struct text text;
    char numbers[192], faults[32], bytes[32];
    text.length = 0;
    append_values(&text, "{\"temperatures\":", &temperatures);
    append_values(&text, ",\"cpu_frequencies\":", &cpu_frequencies);
    append_values(&text, ",\"other_frequencies\":", &other_frequencies);
    put_faults(faults);
    put_read_bytes(bytes);
    snprintf(numbers, sizeof numbers,
             ",\"available_kb\":%llu,\"resident_kb\":%llu,\"major_faults\":%s,\"read_bytes\":%s}",
             available_memory_kb(), resident_kb(), faults, bytes);
    append(&text, numbers);
    return frames_put(frames, FRAME_SAMPLE, text.bytes, text.length);
}
