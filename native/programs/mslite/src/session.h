/* One engine with one model: made, asked, and put away in the order that the C API's ownership rules want. */
#ifndef OHFORGE_MSLITE_SESSION_H
#define OHFORGE_MSLITE_SESSION_H

#include <stdbool.h>

#include <mindspore/model.h>

#include "options.h"

typedef struct Session {
    OH_AI_ModelHandle model;
    OH_AI_TensorHandleArray inputs, outputs;
    double load_ms;
} Session;

/* Name of the engine for people, loud when it is our reference runtime. */
const char *engine_name(void);
bool engine_is_reference(void);

int list_devices(void); /* Prints one line each; returns how many, or -1 when the API level has no way to ask. */

/* 0, or the exit status after the reason was printed. The session must be closed in either case. */
int open_session(Session *session, const Options *options);
int run_session(Session *session, double *milliseconds);
void close_session(Session *session);

double now_ms(void); /* monotonic */

#endif
