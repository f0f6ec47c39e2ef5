/* Clocks of the CPUs that are fixed while a program runs, and set back whatever ends us. */
#ifndef OHFORGE_PIN_H
#define OHFORGE_PIN_H

#include "frames.h"

#include <stdbool.h>

/* Fixes every CPU policy at the highest clock it is allowed, by a guard in a process of its own that sets all back when
 * it is told to, or when we are gone. To be called before orphans become ours. Returns false when one cannot be fixed;
 * nothing is changed then, and pin_failure says why. */
bool pin_begin(void);
int pin_errno(void);
const char *pin_failure(void);
/* Puts a frame about what was found and set. */
void pin_tell(struct frames *frames);
/* Sets everything back, and puts a frame about what was no longer as it was set, and what could not be set back. */
void pin_end(struct frames *frames);

#endif
