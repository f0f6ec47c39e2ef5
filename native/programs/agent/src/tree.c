#include "tree.h"

#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define STOP_ROUNDS 5
#define EXEC_LOOKS 20
#define EXEC_PAUSE 5000000 /* nanoseconds */
#define KERNEL_THREAD 0x00200000u /* of the flags, which linux/sched.h calls PF_KTHREAD */

struct process {
    pid_t pid, parent, session;
    unsigned long long start; /* in ticks since the kernel's start */
    bool zombie, kernels, ours;
};

struct list {
    struct process *items;
    size_t count, capacity;
};

static char mark[64]; /* NAME=VALUE in the environment of all of the tree; empty when there is no need for it */
static unsigned long long since; /* all of the tree started at this tick or later */

bool tree_adopt_orphans(void) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return true;
    struct timespec now = {0};
    clock_gettime(CLOCK_BOOTTIME, &now);
    const unsigned long long ticks = (unsigned long long)sysconf(_SC_CLK_TCK);
    since = (unsigned long long)now.tv_sec * ticks + (unsigned long long)now.tv_nsec * ticks / 1000000000;
    snprintf(mark, sizeof mark, "OHFORGE_AGENT_RUN=%d-%llu", (int)getpid(), (unsigned long long)now_us());
    putenv(mark);
    return false;
}

enum belonging { FOREIGN, OURS, IN_EXEC };

/* A process in the midst of execve has no environment for a while. */
static enum belonging read_mark(pid_t pid) {
    static char content[131072]; /* the kernel puts no limit on it, but no sane environment is longer */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FOREIGN;
    ssize_t length = read(fd, content, sizeof content);
    close(fd);
    if (length == 0) return IN_EXEC;
    return length > 0 && memmem(content, (size_t)length, mark, strlen(mark) + 1) != NULL ? OURS : FOREIGN;
}

/* Fields of /proc/PID/stat: pid (name) state parent group session, 2 others, flags, 12 others, start. The name may
   contain blanks and brackets. */
static bool read_process(const char *pid, struct process *process) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return false;
    text[length] = '\0';
    const char *after_name = strrchr(text, ')');
    char state;
    int parent, group, session;
    unsigned flags;
    unsigned long long start;
    const char *fields = " %c %d %d %d %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
    if (!after_name || sscanf(after_name + 1, fields, &state, &parent, &group, &session, &flags, &start) != 6)
        return false;
    *process = (struct process){.pid = (pid_t)atoi(pid), .parent = parent, .session = session, .start = start};
    process->zombie = state == 'Z' || state == 'X';
    process->kernels = flags & KERNEL_THREAD;
    return true;
}

static bool append(struct list *list, struct process process) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        struct process *items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = process;
    return true;
}

static void read_processes(struct list *list) {
    DIR *proc = opendir("/proc");
    if (!proc) return;
    for (struct dirent *entry; (entry = readdir(proc));) {
        struct process process;
        if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, &process) && !append(list, process))
            break;
    }
    closedir(proc);
}

static bool is_ours(const struct list *list, pid_t pid) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].pid == pid) return list->items[i].ours;
    return false;
}

/* Returns whether all can be told by now. */
static bool mark_tree(struct list *list, pid_t session) {
    const pid_t self = getpid();
    bool told = true;
    for (size_t i = 0; mark[0] && i < list->count; i++) {
        struct process *process = &list->items[i];
        if (process->pid == self || process->zombie || process->kernels || process->start < since) continue;
        enum belonging belonging = read_mark(process->pid);
        process->ours = belonging == OURS;
        told = told && belonging != IN_EXEC;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *process = &list->items[i];
            if (process->ours || process->pid == self) continue;
            if (process->parent == self || (session && process->session == session) || is_ours(list, process->parent))
                process->ours = changed = true;
        }
    }
    return told;
}

/* Signals the living processes of the tree (0: none, only counts them). `told`: whether that is certain. */
static int for_each(pid_t session, int number, bool *told) {
    struct list list = {0};
    read_processes(&list);
    *told = mark_tree(&list, session);
    int count = 0;
    for (size_t i = 0; i < list.count; i++) {
        if (!list.items[i].ours || list.items[i].zombie) continue;
        count++;
        if (number) kill(list.items[i].pid, number);
    }
    free(list.items);
    return count;
}

int tree_count(pid_t session) {
    const struct timespec pause = {.tv_nsec = EXEC_PAUSE};
    bool told;
    int count = for_each(session, 0, &told);
    for (int look = 1; count == 0 && !told && look < EXEC_LOOKS; look++) {
        nanosleep(&pause, NULL);
        count = for_each(session, 0, &told);
    }
    return count;
}

int tree_signal(pid_t session, int number) {
    bool told;
    if (number == SIGKILL)
        for (int round = 0, before = -1, now = 0; round < STOP_ROUNDS && now != before; round++) {
            before = now;
            now = for_each(session, SIGSTOP, &told);
        }
    int count = for_each(session, number, &told);
    if (number == SIGTERM) for_each(session, SIGCONT, &told); /* a stopped process does not see SIGTERM */
    return count;
}
