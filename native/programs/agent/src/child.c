#include "child.h"

#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CLOSE_BELOW 256

static const struct {
    const char *name;
    int resource;
} limit_names[] = {
    {"as", RLIMIT_AS},         {"core", RLIMIT_CORE},       {"cpu", RLIMIT_CPU},     {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},   {"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},
    {"rss", RLIMIT_RSS},       {"stack", RLIMIT_STACK},
};

void child_add_limit(struct child_options *options, const char *text) {
    const char *value = strchr(text, '=');
    if (!value) usage_error("--limit takes NAME=VALUE, not %s", text);
    if (options->limit_count == LIMITS_MAX) usage_error("more than %d limits", LIMITS_MAX);
    for (unsigned i = 0; i < sizeof limit_names / sizeof *limit_names; i++) {
        const char *name = limit_names[i].name;
        if (strlen(name) != (size_t)(value - text) || strncmp(name, text, strlen(name)) != 0) continue;
        rlim_t number = strcmp(value + 1, "unlimited") == 0 ? RLIM_INFINITY
                                                            : (rlim_t)parse_number("--limit", value + 1, INT64_MAX);
        options->limits[options->limit_count++] =
            (struct limit){.resource = limit_names[i].resource, .value = {.rlim_cur = number, .rlim_max = number}};
        return;
    }
    usage_error("there is no limit named %.*s", (int)(value - text), text);
}

void child_set_cpus(struct child_options *options, const char *text) {
    options->has_cpus = true;
    CPU_ZERO(&options->cpus);
    for (const char *at = text;;) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at) break;
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            if (end == at) break;
        }
        if (last < first || last >= CPU_SETSIZE) break;
        for (unsigned long cpu = first; cpu <= last; cpu++) CPU_SET(cpu, &options->cpus);
        if (*end == '\0') return;
        if (*end != ',') break;
        at = end + 1;
    }
    usage_error("--cpus takes a list such as 0-3,6, not %s", text);
}

struct report {
    char stage[12];
    int number;
};

static _Noreturn void give_up(int report_fd, const char *stage) {
    struct report report = {.number = errno};
    strncpy(report.stage, stage, sizeof report.stage - 1);
    ssize_t ignored = write(report_fd, &report, sizeof report);
    (void)ignored;
    _exit(STATUS_FAILED);
}

static void reset_signals(void) {
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the new process. */
static _Noreturn void become(const struct child_options *options, int in, int out, int err, int report_fd) {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* should the agent itself be killed */
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (int fd = STDERR_FILENO + 1; fd < CLOSE_BELOW; fd++)
        if (fd != report_fd) close(fd);
    if (options->has_nice && setpriority(PRIO_PROCESS, 0, options->nice) != 0) give_up(report_fd, "nice");
    if (options->has_cpus && sched_setaffinity(0, sizeof options->cpus, &options->cpus) != 0)
        give_up(report_fd, "cpus");
    if (options->folder && chdir(options->folder) != 0) give_up(report_fd, "folder");
    for (unsigned i = 0; i < options->limit_count; i++)
        if (setrlimit(options->limits[i].resource, &options->limits[i].value) != 0) give_up(report_fd, "limit");
    reset_signals();
    execvp(options->argv[0], options->argv);
    give_up(report_fd, "exec");
}

static bool failed(struct child *child, const char *stage, int number) {
    strncpy(child->failed_stage, stage, sizeof child->failed_stage - 1);
    child->failed_errno = number;
    child->pid = 0;
    return false;
}

bool child_start(const struct child_options *options, struct child *child) {
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC), out[2], err[2] = {-1, -1}, report[2];
    if (in < 0 || pipe2(out, O_CLOEXEC) != 0 || (!options->merge && pipe2(err, O_CLOEXEC) != 0) ||
        pipe2(report, O_CLOEXEC) != 0)
        return failed(child, "pipe", errno);
    child->pid = fork();
    if (child->pid < 0) return failed(child, "fork", errno);
    if (child->pid == 0) become(options, in, out[1], options->merge ? out[1] : err[1], report[1]);
    close(in);
    close(out[1]);
    if (err[1] >= 0) close(err[1]);
    close(report[1]);
    struct report answer;
    ssize_t length;
    while ((length = read(report[0], &answer, sizeof answer)) < 0 && errno == EINTR) continue;
    close(report[0]);
    if (length == sizeof answer) return failed(child, answer.stage, answer.number);
    child->out = out[0];
    child->err = err[0];
    fcntl(child->out, F_SETFL, O_NONBLOCK); /* our ends only: the program's ends are descriptions of their own */
    if (child->err >= 0) fcntl(child->err, F_SETFL, O_NONBLOCK);
    return true;
}
