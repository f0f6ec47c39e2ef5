/* A loop that is shared out over a few threads. */
#ifndef OHFORGE_PARALLEL_H
#define OHFORGE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Workers Workers;

/* Does the items from `begin` up to `end`; `scratch` is memory that no other thread uses meanwhile. */
typedef void (*Task)(void *context, size_t begin, size_t end, void *scratch);

/* `threads` counts the caller too. NULL when there is no memory; fewer threads when the system grants no more. */
Workers *workers_create(int threads);
void workers_destroy(Workers *workers);
int workers_count(const Workers *workers);

/* Gives every thread `bytes` of scratch memory (16-byte aligned, not cleared). False when there is no memory. */
bool workers_reserve(Workers *workers, size_t bytes);

/* Runs `task` over `count` items, `grain` at a time, and returns when all are done. */
void workers_run(Workers *workers, size_t count, size_t grain, Task task, void *context);

#ifdef __cplusplus
}
#endif
#endif
