/* What the parts of the agent share. */
#ifndef OHFORGE_AGENT_H
#define OHFORGE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_VERSION 3 /* of the frames and the options; the host refuses any other */

/* Statuses of our own failures, the same numbers that env(1) and timeout(1) use. */
enum { STATUS_DEADLINE = 124, STATUS_FAILED = 125, STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127 };

extern const char *const agent_arch;

int follow_command(int argc, char **argv);
int hash_command(int argc, char **argv);
int run_command(int argc, char **argv);

/* Microseconds on the monotonic clock. */
uint64_t now_us(void);

/* "name=value" or "name" "value" at argv[*index]: the value, with *index moved to the last word used; NULL when the
 * word is another option. Ends the program when the value is missing. */
const char *option_value(int argc, char **argv, int *index, const char *name);
/* A number from 0 to `limit`; ends the program with a message when `text` is none. */
uint64_t parse_number(const char *option, const char *text, uint64_t limit);
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
