/* `run … -- PROGRAM`: starts a program, frames what it prints, and answers for the end of all that it started.
 *
 * One loop over poll. Output is only taken from the program while there is room for it, so a slow reader slows the
 * program down and nothing else: the deadline, signals and the end of the reader are always seen. */
#include "agent.h"
#include "child.h"
#include "frames.h"
#include "pin.h"
#include "sample.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000ull
#define SECOND 1000000ull
#define DEFAULT_GRACE (2000 * MS)
#define STOP_GRACE (300 * MS)      /* who told us to stop kills us soon after */
#define LEFTOVER_GRACE (200 * MS)  /* for what the program left running */
#define KILL_EVERY (50 * MS)
#define KILL_LIMIT (5 * SECOND)    /* a process that hangs in the kernel cannot be killed */
#define STALLED_LIMIT (60 * SECOND) /* how long an ended program's output waits for a reader that takes nothing */
#define NEVER UINT64_MAX

enum phase {
    RUNNING,
    TERMINATING, /* asked to end; will be killed at `kill_at` */
    KILLING,
    ENDED, /* nothing of the tree is left, or it cannot be killed */
};

struct options {
    struct child_options child;
    uint64_t deadline, grace, sample; /* microseconds; 0: none */
    bool pin;
};

struct run {
    struct options options;
    struct frames frames;
    struct child child;
    enum phase phase;
    const char *reason; /* why the tree was ended; "" when the program ended by itself */
    bool adopts, alone; /* orphans become ours; no child is left */
    bool main_ended;
    bool stopped; /* by a signal; who sent it will not wait for us */
    int status;
    struct rusage usage;
    uint64_t started, ended, deadline_at, sample_at, kill_at, give_up_at;
    uint64_t bytes[2]; /* taken from stdout, stderr */
    unsigned samples_lost;
    int left, survivors;
};

static struct run run; /* all zero, so that its buffers take no room in the file */
static volatile sig_atomic_t stop_signal;

static void remember_stop(int number) { stop_signal = number; }
static void wake_up(int number) { (void)number; }

static const char *signal_reason(int number) {
    return number == SIGHUP ? "SIGHUP" : number == SIGINT ? "SIGINT" : "SIGTERM";
}

static void parse_options(int argc, char **argv, struct options *options) {
    int i = 0;
    const char *value;
    options->grace = DEFAULT_GRACE;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--merge") == 0)
            options->child.merge = true;
        else if (strcmp(argv[i], "--pin") == 0)
            options->pin = true;
        else if ((value = option_value(argc, argv, &i, "--deadline")))
            options->deadline = parse_number("--deadline", value, UINT32_MAX) * MS;
        else if ((value = option_value(argc, argv, &i, "--grace")))
            options->grace = parse_number("--grace", value, UINT32_MAX) * MS;
        else if ((value = option_value(argc, argv, &i, "--sample")))
            options->sample = parse_number("--sample", value, UINT32_MAX) * MS;
        else if ((value = option_value(argc, argv, &i, "--cwd")))
            options->child.folder = value;
        else if ((value = option_value(argc, argv, &i, "--cpus")))
            child_set_cpus(&options->child, value);
        else if ((value = option_value(argc, argv, &i, "--nice"))) {
            options->child.has_nice = true;
            options->child.nice = value[0] == '-' ? -(int)parse_number("--nice", value + 1, 20)
                                                  : (int)parse_number("--nice", value, 19);
        } else if ((value = option_value(argc, argv, &i, "--limit")))
            child_add_limit(&options->child, value);
        else if ((value = option_value(argc, argv, &i, "--env"))) {
            if (!strchr(value, '=') || value[0] == '=') usage_error("--env takes NAME=VALUE, not %s", value);
            putenv((char *)(uintptr_t)value);
        } else if ((value = option_value(argc, argv, &i, "--unset")))
            unsetenv(value);
        else
            usage_error("run has no option %s; the program comes after --", argv[i]);
    }
    if (i + 1 >= argc) usage_error("run needs a program after --");
    options->child.argv = argv + i + 1;
}

static void end_tree(const char *reason, uint64_t grace, uint64_t now) {
    run.reason = reason;
    run.phase = TERMINATING;
    run.kill_at = now + grace;
    run.give_up_at = run.kill_at + KILL_LIMIT;
    pid_t session = run.adopts && run.main_ended ? 0 : run.child.pid;
    tree_signal(session, SIGTERM);
    if (!run.main_ended) kill(-run.child.pid, SIGTERM);
}

static void kill_tree(uint64_t now) {
    run.phase = KILLING;
    run.kill_at = now + KILL_EVERY;
    pid_t session = run.adopts && run.main_ended ? 0 : run.child.pid;
    tree_signal(session, SIGKILL);
    if (!run.main_ended) kill(-run.child.pid, SIGKILL);
}

static void reap(uint64_t now) {
    int status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        if (pid != run.child.pid) continue;
        run.main_ended = true;
        run.status = status;
        run.usage = usage;
        run.ended = now;
    }
    run.alone = pid < 0 && errno == ECHILD && (run.adopts || tree_count(run.child.pid) == 0);
}

/* What is due now. */
static void step(uint64_t now) {
    reap(now);
    if (run.phase == RUNNING) {
        if (run.main_ended && !run.alone) {
            run.left = tree_count(run.adopts ? 0 : run.child.pid);
            end_tree("", LEFTOVER_GRACE, now);
        } else if (stop_signal) {
            run.stopped = true;
            end_tree(signal_reason(stop_signal), STOP_GRACE, now);
        } else if (run.frames.broken)
            end_tree("reader gone", STOP_GRACE, now);
        else if (now >= run.deadline_at)
            end_tree("deadline", run.options.grace, now);
        stop_signal = 0;
    }
    if (run.main_ended && run.alone) {
        run.phase = ENDED;
        return;
    }
    if (run.phase == TERMINATING && (now >= run.kill_at || stop_signal)) kill_tree(now);
    if (run.phase == KILLING && now >= run.kill_at) kill_tree(now);
    if (run.phase == KILLING && now >= run.give_up_at) {
        run.survivors = tree_count(run.adopts && run.main_ended ? 0 : run.child.pid);
        run.phase = ENDED;
    }
    if (run.options.sample && run.phase == RUNNING && now >= run.sample_at) {
        if (!sample_put(&run.frames)) run.samples_lost++;
        run.sample_at += ((now - run.sample_at) / run.options.sample + 1) * run.options.sample;
    }
}

/* Moves output of one stream into a frame. Returns false when there was nothing to take just now. */
static bool take_output(int *fd, enum frame_type type, uint64_t *total) {
    static uint8_t chunk[FRAME_PAYLOAD];
    size_t room = run.frames.broken ? sizeof chunk : frames_room(&run.frames);
    if (*fd < 0 || room < FRAME_PAYLOAD / 2) return false;
    ssize_t count = read(*fd, chunk, room);
    if (count > 0) {
        *total += (uint64_t)count;
        frames_put(&run.frames, type, chunk, (size_t)count);
        return true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    close(*fd);
    *fd = -1;
    return false;
}

static uint64_t next_event(void) {
    if (run.phase == RUNNING) {
        uint64_t sample_at = run.options.sample ? run.sample_at : NEVER;
        return run.deadline_at < sample_at ? run.deadline_at : sample_at;
    }
    return run.kill_at;
}

/* `taking`: output of the program is an event too, as long as there is room for it. */
static void wait_for_event(const sigset_t *unblocked, uint64_t until, bool taking) {
    bool has_room = taking && (run.frames.broken || frames_room(&run.frames) >= FRAME_PAYLOAD / 2);
    struct pollfd fds[3] = {
        {.fd = run.frames.broken ? -1 : run.frames.fd, .events = frames_waiting(&run.frames) ? POLLOUT : 0},
        {.fd = has_room ? run.child.out : -1, .events = POLLIN},
        {.fd = has_room ? run.child.err : -1, .events = POLLIN},
    };
    uint64_t now = now_us(), wait = until <= now ? 0 : until - now;
    struct timespec timeout = {.tv_sec = (time_t)(wait / SECOND), .tv_nsec = (long)(wait % SECOND * 1000)};
    if (ppoll(fds, 3, until == NEVER ? NULL : &timeout, unblocked) > 0 && fds[0].revents & (POLLERR | POLLNVAL))
        run.frames.broken = true;
}

static void put_end(void) {
    const struct rusage *usage = &run.usage;
    bool signalled = run.main_ended && WIFSIGNALED(run.status);
    frames_text(&run.frames, FRAME_END,
                "{\"ended\":%s,\"code\":%d,\"signal\":%d,\"core\":%s,\"reason\":\"%s\",\"wall_us\":%llu,"
                "\"user_us\":%llu,\"system_us\":%llu,\"max_rss_kb\":%ld,\"minor_faults\":%ld,\"major_faults\":%ld,"
                "\"voluntary_switches\":%ld,\"involuntary_switches\":%ld,\"blocks_read\":%ld,\"blocks_written\":%ld,"
                "\"stdout_bytes\":%llu,\"stderr_bytes\":%llu,\"samples_lost\":%u,\"left\":%d,\"survivors\":%d}",
                run.main_ended ? "true" : "false", run.main_ended && !signalled ? WEXITSTATUS(run.status) : 0,
                signalled ? WTERMSIG(run.status) : 0, signalled && WCOREDUMP(run.status) ? "true" : "false",
                run.reason, (unsigned long long)((run.main_ended ? run.ended : now_us()) - run.started),
                (unsigned long long)usage->ru_utime.tv_sec * SECOND + (unsigned long long)usage->ru_utime.tv_usec,
                (unsigned long long)usage->ru_stime.tv_sec * SECOND + (unsigned long long)usage->ru_stime.tv_usec,
                (long)usage->ru_maxrss, (long)usage->ru_minflt, (long)usage->ru_majflt, (long)usage->ru_nvcsw,
                (long)usage->ru_nivcsw, (long)usage->ru_inblock, (long)usage->ru_oublock,
                (unsigned long long)run.bytes[0], (unsigned long long)run.bytes[1], run.samples_lost, run.left,
                run.survivors);
}

/* Sends what waits; gives up when the reader takes nothing for long, or when we are told to stop. */
static void flush_frames(const sigset_t *unblocked) {
    run.frames.last_progress = now_us();
    for (;;) {
        frames_write(&run.frames);
        uint64_t until = run.frames.last_progress + (run.stopped || stop_signal ? STOP_GRACE : STALLED_LIMIT);
        if (!frames_waiting(&run.frames) || now_us() >= until) return;
        wait_for_event(unblocked, until, false);
    }
}

static void drain(const sigset_t *unblocked) {
    for (bool more = true; more;) {
        more = take_output(&run.child.out, FRAME_STDOUT, &run.bytes[0]);
        more |= take_output(&run.child.err, FRAME_STDERR, &run.bytes[1]);
        if (frames_room(&run.frames) < FRAME_PAYLOAD / 2) {
            flush_frames(unblocked);
            more = !frames_waiting(&run.frames);
        }
    }
}

static int exit_status(void) {
    if (strcmp(run.reason, "deadline") == 0) return STATUS_DEADLINE;
    if (!run.main_ended) return STATUS_FAILED;
    return WIFSIGNALED(run.status) ? 128 + WTERMSIG(run.status) : WEXITSTATUS(run.status);
}

static int report_pin_failure(const sigset_t *unblocked) {
    int number = pin_errno();
    frames_text(&run.frames, FRAME_FAILED, "{\"stage\":\"pin\",\"errno\":%d,\"error\":\"%s: %s\"}", number,
                pin_failure(), strerror(number));
    flush_frames(unblocked);
    return STATUS_FAILED;
}

static int report_failure(const sigset_t *unblocked) {
    int number = run.child.failed_errno;
    pin_end(&run.frames);
    frames_text(&run.frames, FRAME_FAILED, "{\"stage\":\"%s\",\"errno\":%d,\"error\":\"%s\"}", run.child.failed_stage,
                number, strerror(number));
    flush_frames(unblocked);
    if (strcmp(run.child.failed_stage, "exec") != 0) return STATUS_FAILED;
    return number == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* Signals are only let in while we wait, so none can come between looking at its flag and waiting. */
static void set_signals(sigset_t *unblocked) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigemptyset(unblocked);
    static const int stops[] = {SIGTERM, SIGHUP, SIGINT};
    for (unsigned i = 0; i < sizeof stops / sizeof *stops; i++) {
        sigaddset(&blocked, stops[i]);
        sigaction(stops[i], &(struct sigaction){.sa_handler = remember_stop}, NULL);
    }
    sigaddset(&blocked, SIGCHLD);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = wake_up}, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
}

/* Whoever started us may be killed without a word to us. */
static void follow_parent(void) {
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent) stop_signal = SIGTERM;
}

static void open_missing_descriptors(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) continue;
    if (fd > STDERR_FILENO) close(fd);
}

/* The key goes out in the first frame, before the program exists. The program could read from the same pipe what was
 * not read by then, for the shell above us has it open too. */
static bool tell_key(const sigset_t *unblocked) {
    uint8_t key[FRAME_KEY];
    char text[2 * FRAME_KEY + 1];
    if (!frames_make_key(key, text)) usage_error("there are no random numbers in /dev/urandom");
    frames_text(&run.frames, FRAME_HELLO, "{\"agent\":%d,\"arch\":\"%s\",\"pid\":%d,\"adopts_orphans\":%s,\"key\":\"%s\"}",
                AGENT_VERSION, agent_arch, (int)getpid(), run.adopts ? "true" : "false", text);
    frames_use_key(&run.frames, key);
    const struct timespec moment = {.tv_nsec = 1000000};
    for (uint64_t until = now_us() + STALLED_LIMIT; now_us() < until && !stop_signal;) {
        frames_write(&run.frames);
        if (run.frames.broken || (!frames_waiting(&run.frames) && frames_read(&run.frames))) return true;
        ppoll(NULL, 0, &moment, unblocked);
    }
    return false;
}

int run_command(int argc, char **argv) {
    sigset_t unblocked;
    /* The program is often the same user's: it shall not read our memory, nor write to what we have open. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    parse_options(argc, argv, &run.options);
    run.reason = "";
    open_missing_descriptors();
    set_signals(&unblocked);
    follow_parent();
    frames_begin(&run.frames, STDOUT_FILENO);
    bool pinned = run.options.pin && pin_begin();
    run.adopts = tree_adopt_orphans();
    if (!tell_key(&unblocked)) {
        pin_end(&run.frames);
        return STATUS_FAILED;
    }
    if (run.options.pin && !pinned) return report_pin_failure(&unblocked);
    if (pinned) pin_tell(&run.frames);
    run.started = now_us();
    if (!child_start(&run.options.child, &run.child)) return report_failure(&unblocked);
    frames_text(&run.frames, FRAME_STARTED, "{\"pid\":%d}", (int)run.child.pid);
    run.deadline_at = run.options.deadline ? run.started + run.options.deadline : NEVER;
    run.sample_at = run.started;
    if (run.options.sample) sample_begin(&run.frames, run.child.pid);
    while (run.phase != ENDED) {
        take_output(&run.child.out, FRAME_STDOUT, &run.bytes[0]);
        take_output(&run.child.err, FRAME_STDERR, &run.bytes[1]);
        frames_write(&run.frames);
        step(now_us()); /* after what may find that nobody reads any more: no other event need ever come */
        if (run.phase != ENDED) wait_for_event(&unblocked, next_event(), true);
    }
    pin_end(&run.frames); /* at once: a reader may be slow */
    drain(&unblocked);
    put_end();
    flush_frames(&unblocked);
    return exit_status();
}
