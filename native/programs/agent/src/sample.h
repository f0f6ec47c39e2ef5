/* State of the board while a program runs: temperatures, frequencies, memory. */
#ifndef OHFORGE_SAMPLE_H
#define OHFORGE_SAMPLE_H

#include "frames.h"

#include <stdbool.h>
#include <sys/types.h>

/* Opens what there is and says in a frame what the numbers of the samples are of. */
void sample_begin(struct frames *frames, pid_t program);
/* Puts one sample; false when there was no room for it. */
bool sample_put(struct frames *frames);

#endif
