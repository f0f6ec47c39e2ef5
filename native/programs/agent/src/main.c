/* The agent: a helper that ohforge pushes to a board. docs/agent.md describes its commands and its frames. */
#include "agent.h"
#include "sha256.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__aarch64__)
const char *const agent_arch = "arm64";
#elif defined(__arm__)
const char *const agent_arch = "arm32";
#elif defined(__x86_64__)
const char *const agent_arch = "x86_64";
#else
#error "the agent is built for arm32, arm64 and x86_64"
#endif

static const char usage[] =
    "usage: ohforge-agent version\n"
    "       ohforge-agent hash [--portable] FILE...\n"
    "       ohforge-agent follow --size BYTES [--step BYTES] [--lag BYTES] [--idle MS] [--echo] FILE\n"
    "       ohforge-agent measure [--buffer BYTES] [--file BYTES] [--passes N] [--threads N] FOLDER\n"
    "       ohforge-agent run [--deadline MS] [--grace MS] [--sample MS] [--pin] [--cwd DIR] [--cpus LIST] [--nice N]\n"
    "                         [--limit NAME=VALUE]... [--env NAME=VALUE]... [--unset NAME]... [--merge] -- PROGRAM [WORD...]\n";

uint64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

const char *option_value(int argc, char **argv, int *index, const char *name) {
    const char *word = argv[*index];
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0) return NULL;
    if (word[length] == '=') return word + length + 1;
    if (word[length] != '\0') return NULL;
    if (*index + 1 >= argc) usage_error("%s needs a value", name);
    return argv[++*index];
}

uint64_t parse_number(const char *option, const char *text, uint64_t limit) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > limit)
        usage_error("%s takes a number up to %llu, not %s", option, (unsigned long long)limit, text);
    return number;
}

_Noreturn void usage_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("ohforge-agent: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(STATUS_FAILED);
}

static int version_command(void) {
    printf("{\"agent\":%d,\"arch\":\"%s\",\"sha256\":\"%s\"}\n", AGENT_VERSION, agent_arch, sha256_best_engine().name);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : STATUS_FAILED;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "version") == 0 && argc == 2) return version_command();
    if (strcmp(command, "hash") == 0) return hash_command(argc - 2, argv + 2);
    if (strcmp(command, "follow") == 0) return follow_command(argc - 2, argv + 2);
    if (strcmp(command, "measure") == 0) return measure_command(argc - 2, argv + 2);
    if (strcmp(command, "run") == 0) return run_command(argc - 2, argv + 2);
    fputs(usage, stderr);
    return STATUS_FAILED;
}
