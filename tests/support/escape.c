/* Known ways out of a sandbox, each tried once: escape SECRET PROCESS PORT ABSTRACT SHM [careful]
 * SECRET is a file of the computer (an absolute path), PROCESS one of its processes, PORT one where it listens,
 * ABSTRACT an abstract socket of it, SHM the key of a shared memory segment. In the environment of who started the
 * board is OHFORGE_CANARY. Prints a line for each way: its name, a tab, "held" or "OUT" and where.
 * Runs on a board only. What would be written is opened only; with the word "careful" no mount is tried, which where
 * it is allowed would change the computer. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define UP "/../../../../../../../../../../../.."
static const char *secret;
static char where[8192];

static int out(const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(where, sizeof where, format, words);
    va_end(words);
    return 1;
}

static int reads(const char *path) {
    int file = open(path, O_RDONLY | O_NONBLOCK);
    char byte;
    int read_one = file >= 0 && read(file, &byte, 1) == 1;
    if (file >= 0) close(file);
    return read_one;
}

static int writable(const char *path) {
    int file = open(path, O_WRONLY | O_NONBLOCK);
    if (file >= 0) close(file);
    return file >= 0 && out("%s can be written", path);
}

/* For each process and each entry of a folder of it (or the link itself), whether the secret is found from there. */
static int through(const char *link, const char *up) {
    DIR *processes = opendir("/proc");
    struct dirent *process, *entry;
    char path[8192];
    int found = 0;
    while (processes && !found && (process = readdir(processes))) {
        if (process->d_name[0] < '0' || process->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/%s", process->d_name, link);
        DIR *folder = strcmp(link, "fd") ? NULL : opendir(path);
        if (!folder) {
            snprintf(path, sizeof path, "/proc/%s/%s%s%s", process->d_name, link, up, secret);
            found = reads(path) && out("%s", path);
            continue;
        }
        while (!found && (entry = readdir(folder))) {
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "/proc/%s/fd/%s%s%s", process->d_name, entry->d_name, up, secret);
            found = reads(path) && out("%s", path);
        }
        closedir(folder);
    }
    if (processes) closedir(processes);
    return found;
}

static int by_name(void) { return reads(secret) && out("%s", secret); }
static int by_descriptors(void) { return through("fd", UP); }
static int by_working_directories(void) { return through("cwd", UP); }
static int by_roots(void) { return through("root", ""); }

static int by_proots_own_name(void) {
    char path[4096];
    snprintf(path, sizeof path, "/host-rootfs%s", secret);
    return reads(path) && out("%s", path);
}

static int by_environment(void) {
    DIR *processes = opendir("/proc");
    struct dirent *process;
    int found = 0;
    while (processes && !found && (process = readdir(processes))) {
        char path[300];
        static char text[1 << 20];
        snprintf(path, sizeof path, "/proc/%s/environ", process->d_name);
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        ssize_t size = read(file, text, sizeof text);
        close(file);
        found = size > 0 && memmem(text, size, "OHFORGE_CANARY", 14) && out("%s", path);
    }
    if (processes) closedir(processes);
    return found;
}

/* Whether a process runs a program of the board, to whom other programs of the board may do what they like. */
static int is_the_boards(int number) {
    char link[100], program[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", number);
    ssize_t size = readlink(link, program, sizeof program);
    return size > 8 && (strncmp(program, "/system/", 8) == 0 || strncmp(program, "/data/", 6) == 0);
}

static int each_other_process(int (*try)(int)) {
    DIR *processes = opendir("/proc");
    struct dirent *process;
    int found = 0;
    while (processes && !found && (process = readdir(processes))) {
        int number = atoi(process->d_name);
        if (number > 0 && !is_the_boards(number)) found = try(number);
    }
    if (processes) closedir(processes);
    return found;
}

static int attach(int number) {
    /* Unlike PTRACE_ATTACH it does not stop the process, and ends with this one. */
    return ptrace(0x4206 /* PTRACE_SEIZE */, number, 0, 0) == 0 && out("process %d", number);
}

static int open_memory(int number) {
    char path[100];
    snprintf(path, sizeof path, "/proc/%d/mem", number);
    int file = open(path, O_RDWR);
    if (file >= 0) close(file);
    return file >= 0 && out("%s", path);
}

static int read_memory(int number) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return syscall(SYS_process_vm_readv, number, &here, 1, &there, 1, 0) >= 0 && out("process %d", number);
}

static int by_ptrace(void) { return each_other_process(attach); }
static int by_memory_files(void) { return each_other_process(open_memory); }
static int by_reading_memory(void) { return each_other_process(read_memory); }

static int host_process;
static int by_signal(void) {
    char path[100], text[200] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", host_process);
    int file = open(path, O_RDONLY);
    if (file >= 0 && read(file, text, sizeof text - 1) >= 0) close(file);
    return strstr(text, "sleep") && kill(host_process, 0) == 0 && out("process %d", host_process);
}

static int by_mount(void) {
    if (mount("none", "/tmp", "tmpfs", 0, "") == 0) return out("tmpfs");
    if (mount("/", "/mnt", "", MS_BIND | MS_REC, "") == 0) return out("bind");
    if (mount("proc", "/mnt", "proc", 0, "") == 0) return out("proc");
    return mount("none", "/", "", MS_REMOUNT | MS_BIND, "") == 0 && out("remount");
}

static int by_new_mount_calls(void) {
    int opened = syscall(428 /* open_tree */, -1, "/", 1 | 0x8000);
    return opened >= 0 && out("open_tree");
}

static int by_unmount(void) { return umount2("/proc/sys", MNT_DETACH) == 0 && out("/proc/sys"); }

static int by_chroot(void) {
    char path[4096];
    mkdir("/data/local/tmp/inner", 0700);
    int here = open("/", O_RDONLY | O_DIRECTORY);
    if (chroot("/data/local/tmp/inner") != 0 || fchdir(here) != 0) return 0;
    snprintf(path, sizeof path, "../../../../../../../..%s", secret);
    return reads(path) && out("%s", path);
}

static int by_new_namespaces(void) {
    static const int kinds[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, 0x02000000};
    for (unsigned index = 0; index < sizeof kinds / sizeof *kinds; index++)
        if (unshare(kinds[index]) == 0) return out("unshare(%#x)", kinds[index]);
    return 0;
}

static int by_clone(void) {
    int child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child > 0 && out("clone");
}

static int join(int number) {
    static const char *kinds[] = {"mnt", "user", "pid", "net", "ipc", "cgroup"};
    for (unsigned index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        char path[100];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", number, kinds[index]);
        int space = open(path, O_RDONLY);
        if (space >= 0 && setns(space, 0) == 0) return out("%s", path);
        if (space >= 0) close(space);
    }
    return 0;
}
static int by_joining_namespaces(void) { return each_other_process(join); }

static int by_kernel_settings(void) {
    return writable("/proc/sys/kernel/core_pattern") || writable("/proc/sys/kernel/modprobe") ||
           writable("/proc/sys/vm/drop_caches") || writable("/proc/sys/kernel/hostname");
}
static int by_binfmt(void) { return writable("/proc/sys/fs/binfmt_misc/register"); }
static int by_sysrq(void) { return writable("/proc/sysrq-trigger"); }

static int by_kernel_memory(void) {
    static const char *files[] = {"/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"};
    for (unsigned index = 0; index < sizeof files / sizeof *files; index++)
        if (reads(files[index])) return out("%s", files[index]);
    return 0;
}

static int by_kernel_log(void) {
    char text[16];
    return reads("/proc/kmsg") || reads("/dev/kmsg") ||
           (syscall(SYS_syslog, 3, text, (int)sizeof text) > 0 && out("syslog"));
}

static int by_device_nodes(void) {
    static const struct { mode_t kind; int major, minor; } nodes[] = {
        {S_IFBLK, 8, 0}, {S_IFBLK, 254, 0}, {S_IFBLK, 259, 0}, {S_IFCHR, 1, 1}, {S_IFCHR, 10, 200}};
    for (unsigned index = 0; index < sizeof nodes / sizeof *nodes; index++) {
        const char *path = "/data/local/tmp/node";
        unlink(path);
        if (mknod(path, nodes[index].kind | 0600, makedev(nodes[index].major, nodes[index].minor)) == 0) {
            int opened = open(path, O_RDONLY | O_NONBLOCK);
            unlink(path);
            if (opened >= 0 || errno == ENXIO) return out("%d:%d", nodes[index].major, nodes[index].minor);
        }
    }
    return 0;
}

static int by_modes_of_devices(void) {
    struct stat now;
    return stat("/dev/null", &now) == 0 && chmod("/dev/null", now.st_mode & 07777) == 0 && out("chmod /dev/null");
}

static int by_symbolic_link(void) {
    const char *link = "/data/local/tmp/to-secret";
    unlink(link);
    return symlink(secret, link) == 0 && reads(link) && out("%s", link);
}

static int by_hard_link(void) {
    const char *name = "/data/local/tmp/hard";
    unlink(name);
    return link(secret, name) == 0 && reads(name) && out("%s", name);
}

static int by_keyring(void) {
    long ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
    if (ring > 0) return out("session keyring %ld", ring);
    ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0);
    return ring > 0 && out("user keyring %ld", ring);
}
static int by_key_list(void) { return reads("/proc/keys") && out("/proc/keys"); }

static const char *abstract;
static int by_abstract_socket(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + 1, abstract, sizeof address.sun_path - 2);
    int link = socket(AF_UNIX, SOCK_STREAM, 0);
    int length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract);
    return connect(link, (struct sockaddr *)&address, length) == 0 && out("@%s", abstract);
}

static int port;
static int by_network(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int link = socket(AF_INET, SOCK_STREAM, 0);
    return connect(link, (struct sockaddr *)&address, sizeof address) == 0 && out("127.0.0.1:%d", port);
}

static int by_raw_packets(void) {
    return socket(AF_PACKET, SOCK_RAW, 0) >= 0 ? out("packet") : socket(40 /* AF_VSOCK */, SOCK_STREAM, 0) >= 0 && out("vsock");
}

static int by_control_groups(void) {
    if (mount("none", "/mnt", "cgroup2", 0, "") == 0 || mount("none", "/mnt", "cgroup", 0, "memory") == 0)
        return out("mount");
    return writable("/sys/fs/cgroup/cgroup.procs") || writable("/sys/fs/cgroup/memory/release_agent");
}

static int by_file_handle(void) {
    /* struct file_handle: 8 bytes, of type 1; inode 2, the root of most file systems, of generation 0. */
    unsigned handle[4] = {8, 1, 2, 0};
    int disk = open("/data", O_RDONLY);
    return syscall(SYS_open_by_handle_at, disk, handle, O_RDONLY) >= 0 && out("inode 2 of the disk");
}

static int shared_key;
static int by_shared_memory(void) { return shmget(shared_key, 0, 0) >= 0 && out("key %d", shared_key); }

static int refused(long result) { return result < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES); }

/* Calls whose arguments are nonsense: who gets another answer than "not permitted" has got past the door. */
static int by_kernel_interfaces(void) {
    static char zeroes[256];
    if (!refused(syscall(SYS_bpf, 0, zeroes, 64))) return out("bpf");
    if (!refused(syscall(SYS_perf_event_open, zeroes, 0, -1, -1, 0))) return out("perf_event_open");
    if (!refused(syscall(425 /* io_uring_setup */, 1, zeroes))) return out("io_uring");
    if (!refused(syscall(SYS_userfaultfd, -1))) return out("userfaultfd");
    if (!refused(syscall(SYS_init_module, zeroes, 0, ""))) return out("init_module");
    if (!refused(syscall(SYS_reboot, 0, 0, 0, 0))) return out("reboot");
    return !refused(syscall(SYS_acct, "/nowhere")) && out("acct");
}

static int by_terminal_input(void) {
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    return terminal >= 0 && ioctl(terminal, TIOCSTI, "x") == 0 && out("TIOCSTI");
}

static const struct { const char *name; int (*try)(void); int mounts; } ways[] = {
    {"path", by_name}, {"descriptors", by_descriptors}, {"working-directories", by_working_directories},
    {"roots", by_roots}, {"host-rootfs", by_proots_own_name}, {"environment", by_environment}, {"ptrace", by_ptrace},
    {"memory-files", by_memory_files}, {"process_vm_readv", by_reading_memory}, {"signals", by_signal},
    {"mount", by_mount, 1}, {"open_tree", by_new_mount_calls, 1}, {"unmount", by_unmount, 1}, {"chroot", by_chroot},
    {"unshare", by_new_namespaces}, {"clone", by_clone}, {"setns", by_joining_namespaces},
    {"kernel-settings", by_kernel_settings}, {"binfmt_misc", by_binfmt}, {"sysrq", by_sysrq},
    {"kernel-memory", by_kernel_memory}, {"kernel-log", by_kernel_log}, {"device-nodes", by_device_nodes},
    {"modes-of-devices", by_modes_of_devices}, {"symbolic-link", by_symbolic_link}, {"hard-link", by_hard_link},
    {"keyring", by_keyring}, {"key-list", by_key_list}, {"abstract-socket", by_abstract_socket},
    {"network", by_network}, {"raw-packets", by_raw_packets}, {"control-groups", by_control_groups, 1},
    {"file-handle", by_file_handle}, {"shared-memory", by_shared_memory}, {"kernel-interfaces", by_kernel_interfaces},
    {"terminal-input", by_terminal_input},
};

int main(int count, char **words) {
    int careful = count == 7 && strcmp(words[6], "careful") == 0;
    if (count != 6 && !careful) return 2;
    if (!reads("/system/etc/param.txt")) {
        fprintf(stderr, "this is no board\n");
        return 3;
    }
    secret = words[1];
    host_process = atoi(words[2]);
    port = atoi(words[3]);
    abstract = words[4];
    shared_key = atoi(words[5]);
    for (unsigned index = 0; index < sizeof ways / sizeof *ways; index++) {
        if (careful && ways[index].mounts) {
            printf("%s\tnot tried\n", ways[index].name);
            continue;
        }
        /* In a process of its own: a way may change root, namespaces or be ended by a signal. */
        fflush(stdout);
        int child = fork();
        if (child == 0) {
            if (ways[index].try())
                printf("%s\tOUT: %s\n", ways[index].name, where);
            else
                printf("%s\theld\n", ways[index].name);
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status)) printf("%s\theld\n", ways[index].name);
    }
    return 0;
}
