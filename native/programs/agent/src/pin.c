#include "pin.h"

#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "/sys/devices/system/cpu/cpufreq"
#define PINNED_GOVERNOR "performance"
#define POLICIES_MAX 16
#define WORD 32
#define ANSWER_MS 10000 /* a write to a clock takes microseconds; a guard that does not answer was killed */

struct policy {
    char name[WORD];
    char governor[WORD], lowest[WORD], highest[WORD]; /* as they were found; kHz */
    char governor_set[WORD];
};

/* What the guard says: how many policies it has fixed, or what failed; later what was lost and what is left. */
struct answer {
    int number; /* errno; 0: all is well */
    char what[2 * WORD + 8];
    unsigned lost, left; /* bits: two for each policy, governor and lowest clock */
};

static struct policy policies[POLICIES_MAX];
static unsigned policy_count;
static struct answer answer;
static int guard = -1; /* our end of the socket to it */

static bool transfer(const struct policy *policy, const char *file, char *text, int flags) {
    char path[128];
    snprintf(path, sizeof path, FOLDER "/%s/%s", policy->name, file);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = flags == O_RDONLY ? read(fd, text, WORD - 1) : write(fd, text, strlen(text));
    int number = errno;
    close(fd);
    errno = number;
    if (flags != O_RDONLY) return length == (ssize_t)strlen(text);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return length > 0;
}

static bool get(const struct policy *policy, const char *file, char text[WORD]) {
    return transfer(policy, file, text, O_RDONLY);
}

static bool put(const struct policy *policy, const char *file, const char *text) {
    char line[WORD + 1];
    snprintf(line, sizeof line, "%s\n", text);
    return transfer(policy, file, line, O_WRONLY | O_TRUNC);
}

static bool is(const struct policy *policy, const char *file, const char *wanted) {
    char text[WORD];
    return get(policy, file, text) && strcmp(text, wanted) == 0;
}

static bool has_governor(const struct policy *policy) {
    char path[128], text[512] = " ";
    snprintf(path, sizeof path, FOLDER "/%s/scaling_available_governors", policy->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text + 1, sizeof text - 3);
    close(fd);
    if (length <= 0) return false;
    text[length + 1] = '\0';
    for (char *at = text; *at; at++)
        if (*at == '\n') *at = ' ';
    strcat(text, " ");
    return strstr(text, " " PINNED_GOVERNOR " ") != NULL;
}

static bool fail(const struct policy *policy, const char *file) {
    answer.number = errno ? errno : EIO;
    snprintf(answer.what, sizeof answer.what, "%s of %s", file, policy->name);
    return false;
}

/* The file that cannot be read, or has something in it that no clock and no governor is called; NULL for none. */
static const char *find(struct policy *policy) {
    static const char digits[] = "0123456789", letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const struct {
        const char *file, *allowed;
        char *text;
    } fields[] = {{"scaling_governor", letters, policy->governor},
                  {"scaling_min_freq", digits, policy->lowest},
                  {"scaling_max_freq", digits, policy->highest}};
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
        errno = 0;
        if (!get(policy, fields[i].file, fields[i].text)) return fields[i].file;
        errno = EINVAL;
        if (fields[i].text[strspn(fields[i].text, fields[i].allowed)] != '\0') return fields[i].file;
    }
    snprintf(policy->governor_set, WORD, "%s", has_governor(policy) ? PINNED_GOVERNOR : policy->governor);
    return NULL;
}

static bool find_policies(void) {
    DIR *folder = opendir(FOLDER);
    for (struct dirent *entry; folder && (entry = readdir(folder)) && policy_count < POLICIES_MAX;) {
        struct policy *policy = &policies[policy_count];
        if (strncmp(entry->d_name, "policy", 6) != 0 || strlen(entry->d_name) >= WORD) continue;
        memcpy(policy->name, entry->d_name, strlen(entry->d_name) + 1);
        policy_count++;
        const char *file = find(policy);
        if (file) {
            closedir(folder);
            return fail(policy, file);
        }
    }
    if (folder) closedir(folder);
    if (policy_count) return true;
    answer.number = ENOENT;
    snprintf(answer.what, sizeof answer.what, "clocks of the CPUs");
    return false;
}

/* The lowest clock first, so that it never waits above the highest; both are read back. */
static void restore(void) {
    for (unsigned i = 0; i < policy_count; i++) {
        struct policy *policy = &policies[i];
        if (!is(policy, "scaling_governor", policy->governor_set)) answer.lost |= 1u << 2 * i;
        if (!is(policy, "scaling_min_freq", policy->highest)) answer.lost |= 2u << 2 * i;
        put(policy, "scaling_min_freq", policy->lowest);
        put(policy, "scaling_governor", policy->governor);
        if (!is(policy, "scaling_governor", policy->governor)) answer.left |= 1u << 2 * i;
        if (!is(policy, "scaling_min_freq", policy->lowest)) answer.left |= 2u << 2 * i;
    }
}

static bool fix(void) {
    for (unsigned i = 0; i < policy_count; i++) {
        struct policy *policy = &policies[i];
        const char *file = "scaling_governor";
        bool good = strcmp(policy->governor, policy->governor_set) == 0 || put(policy, file, policy->governor_set);
        if (good) good = put(policy, file = "scaling_min_freq", policy->highest);
        errno = good ? 0 : errno;
        if (good) good = is(policy, file = "scaling_governor", policy->governor_set);
        if (good) good = is(policy, file = "scaling_min_freq", policy->highest);
        if (good) continue;
        fail(policy, file);
        restore();
        return false;
    }
    return true;
}

/* Holds nothing of ours open but the socket, or the link would wait for it; no signal to our session reaches it. */
static _Noreturn void guard_until_told(int to_agent) {
    if (fork() != 0) _exit(0);
    setsid();
    for (int number = 1; number < NSIG; number++) signal(number, SIG_IGN);
    for (int fd = 0; fd < 1024; fd++)
        if (fd != to_agent) close(fd);
    bool fixed = fix();
    ssize_t told = write(to_agent, &answer, sizeof answer);
    char word;
    while (fixed && told > 0 && read(to_agent, &word, 1) < 0 && errno == EINTR) continue;
    if (fixed) restore();
    told = write(to_agent, &answer, sizeof answer);
    _exit(told > 0 ? 0 : 1);
}

static bool hear(void) {
    struct pollfd from = {.fd = guard, .events = POLLIN};
    return poll(&from, 1, ANSWER_MS) == 1 && read(guard, &answer, sizeof answer) == sizeof answer;
}

bool pin_begin(void) {
    int ends[2];
    if (!find_policies()) return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail(&policies[0], "the guard");
    pid_t middle = fork();
    if (middle < 0) return fail(&policies[0], "the guard");
    if (middle == 0) guard_until_told(ends[1]);
    while (waitpid(middle, NULL, 0) < 0 && errno == EINTR) continue;
    close(ends[1]);
    guard = ends[0];
    if (!hear()) {
        restore();
        return fail(&policies[0], "the guard");
    }
    return answer.number == 0;
}

int pin_errno(void) { return answer.number; }
const char *pin_failure(void) { return answer.what; }

void pin_tell(struct frames *frames) {
    static char text[POLICIES_MAX * 8 * WORD];
    size_t length = 0;
    for (unsigned i = 0; i < policy_count; i++) {
        const struct policy *policy = &policies[i];
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%s{\"name\":\"%s\",\"governor\":\"%s\",\"lowest_khz\":%s,\"highest_khz\":%s,"
                                   "\"found_governor\":\"%s\",\"found_lowest_khz\":%s}",
                                   i ? "," : "", policy->name, policy->governor_set, policy->highest, policy->highest,
                                   policy->governor, policy->lowest);
    }
    frames_text(frames, FRAME_PINNED, "{\"policies\":[%s]}", text);
}

static void list_files(char *text, size_t capacity, unsigned bits) {
    static const char *const files[] = {"scaling_governor", "scaling_min_freq"};
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < 2 * policy_count; i++)
        if (bits >> i & 1 && length < capacity)
            length += (size_t)snprintf(text + length, capacity - length, "%s\"%s of %s\"", length ? "," : "",
                                       files[i % 2], policies[i / 2].name);
}

void pin_end(struct frames *frames) {
    static char lost[POLICIES_MAX * 4 * WORD], left[POLICIES_MAX * 4 * WORD];
    if (guard < 0) return;
    answer = (struct answer){0};
    bool answered = write(guard, "r", 1) == 1 && hear();
    close(guard);
    guard = -1;
    if (!answered) restore(); /* somebody has killed the guard */
    list_files(lost, sizeof lost, answer.lost);
    list_files(left, sizeof left, answer.left);
    frames_text(frames, FRAME_UNPINNED, "{\"lost\":[%s],\"left\":[%s]}", lost, left);
}
