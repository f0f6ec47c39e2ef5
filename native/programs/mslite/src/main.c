/* mslite: runs a .ms model through the C API of MindSpore Lite. `mslite --help` says how. */
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "report.h"
#include "session.h"

static int run_loops(Session *session, const Options *options, double *milliseconds) {
    for (long i = 0; i < options->warmup + options->loops; i++) {
        double time;
        int status = run_session(session, &time);
        if (status) return status;
        if (i < options->warmup) {
            printf("warmup %ld: %.3f ms\n", i + 1, time);
        } else {
            milliseconds[i - options->warmup] = time;
            printf("loop %ld: %.3f ms\n", i - options->warmup + 1, time);
        }
    }
    return 0;
}

static int run_model(Session *session, const Options *options) {
    double *milliseconds = malloc((size_t)options->loops * sizeof *milliseconds);
    if (!milliseconds) return EXIT_NO_MEMORY;
    int status = run_loops(session, options, milliseconds);
    if (!status) {
        print_outputs(session, options);
        status = print_top(session, options);
        print_times(milliseconds, (size_t)options->loops);
        int written = write_outputs(session, options, milliseconds, (size_t)options->loops);
        status = status ? status : written;
    }
    free(milliseconds);
    return status;
}

int main(int count, char **words) {
    Options options;
    bool stop;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* So that a run that hangs shows how far it came. */
    int status = read_options(count, words, &options, &stop);
    if (status || stop) return status;
    if (options.list_devices) {
        printf("engine: %s\n", engine_name());
        return list_devices() == 0 ? EXIT_NO_DEVICE : 0;
    }
    print_head(&options);
    Session session;
    status = open_session(&session, &options);
    if (!status) status = run_model(&session, &options);
    close_session(&session);
    if (!status) puts("result: complete");
    return status;
}
