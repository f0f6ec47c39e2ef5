/* What mslite prints and writes of the results. */
#ifndef OHFORGE_MSLITE_REPORT_H
#define OHFORGE_MSLITE_REPORT_H

#include "options.h"
#include "session.h"

void print_head(const Options *options);
/* The lines of the quick-start program: name, size, the first numbers. */
void print_outputs(const Session *session, const Options *options);
int print_top(const Session *session, const Options *options);
void print_times(const double *milliseconds, size_t count);
int write_outputs(const Session *session, const Options *options, const double *milliseconds, size_t count);

#endif
