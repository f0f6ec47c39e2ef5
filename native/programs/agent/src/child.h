/* Starting the program: its surroundings, and what went wrong when it could not be started. */
#ifndef OHFORGE_CHILD_H
#define OHFORGE_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#define LIMITS_MAX 16

struct limit {
    int resource;
    struct rlimit value;
};

struct child_options {
    const char *folder; /* NULL: where the agent is */
    bool has_cpus, has_nice;
    bool merge; /* stderr goes into the pipe of stdout, so that the order between the two is kept */
    cpu_set_t cpus;
    int nice;
    struct limit limits[LIMITS_MAX];
    unsigned limit_count;
    char **argv; /* ends with NULL; the environment is the agent's own */
};

struct child {
    pid_t pid; /* also its session and group; 0 when it could not be started */
    int out, err; /* ends of the pipes that it writes to; err is -1 when the streams are merged */
    char failed_stage[16]; /* "pipe", "fork", "folder", "limit", "cpus", "nice" or "exec" */
    int failed_errno;
};

/* NAME=VALUE with VALUE a number or "unlimited", added to the options. Ends the program when it is not so. */
void child_add_limit(struct child_options *options, const char *text);
/* A list such as 0-3,6. Ends the program when it is not so. */
void child_set_cpus(struct child_options *options, const char *text);
bool child_start(const struct child_options *options, struct child *child);

#endif
