#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_THREADS = 64 };

typedef struct Worker {
    struct Workers *all;
    pthread_t thread;
    void *scratch;
} Worker;

struct Workers {
    Worker members[MAX_THREADS]; /* The first is the caller. */
    int count;
    size_t scratch_bytes;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    unsigned long round; /* Counts the calls of workers_run, so that a thread knows a new one. */
    int busy;
    bool stop;
    Task task;
    void *context;
    size_t items, grain;
    atomic_size_t next;
};

static void take_items(Workers *workers, void *scratch) {
    for (;;) {
        size_t begin = atomic_fetch_add(&workers->next, workers->grain);
        if (begin >= workers->items) return;
        size_t left = workers->items - begin;
        workers->task(workers->context, begin, begin + (left < workers->grain ? left : workers->grain), scratch);
    }
}

static void *work(void *argument) {
    Worker *self = argument;
    Workers *workers = self->all;
    unsigned long seen = 0;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->stop && workers->round == seen) pthread_cond_wait(&workers->wake, &workers->lock);
        if (workers->stop) break;
        seen = workers->round;
        pthread_mutex_unlock(&workers->lock);
        take_items(workers, self->scratch);
        pthread_mutex_lock(&workers->lock);
        if (--workers->busy == 0) pthread_cond_signal(&workers->finished);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

Workers *workers_create(int threads) {
    Workers *workers = calloc(1, sizeof *workers);
    if (!workers) return NULL;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->wake, NULL);
    pthread_cond_init(&workers->finished, NULL);
    workers->count = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    while (workers->count < threads) {
        Worker *member = &workers->members[workers->count];
        member->all = workers;
        if (pthread_create(&member->thread, NULL, work, member) != 0) break;
        workers->count++;
    }
    return workers;
}

void workers_destroy(Workers *workers) {
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    workers->stop = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 1; i < workers->count; i++) pthread_join(workers->members[i].thread, NULL);
    for (int i = 0; i < workers->count; i++) free(workers->members[i].scratch);
    pthread_cond_destroy(&workers->finished);
    pthread_cond_destroy(&workers->wake);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

int workers_count(const Workers *workers) { return workers->count; }

bool workers_reserve(Workers *workers, size_t bytes) {
    if (bytes <= workers->scratch_bytes) return true;
    workers->scratch_bytes = 0;
    for (int i = 0; i < workers->count; i++) {
        free(workers->members[i].scratch);
        workers->members[i].scratch = NULL;
        if (posix_memalign(&workers->members[i].scratch, 64, bytes) != 0) {
            workers->members[i].scratch = NULL;
            return false;
        }
    }
    workers->scratch_bytes = bytes;
    return true;
}

void workers_run(Workers *workers, size_t count, size_t grain, Task task, void *context) {
    if (grain == 0) grain = 1;
    void *scratch = workers->members[0].scratch;
    if (workers->count == 1 || count <= grain) {
        if (count) task(context, 0, count, scratch);
        return;
    }
    pthread_mutex_lock(&workers->lock);
    workers->task = task;
    workers->context = context;
    workers->items = count;
    workers->grain = grain;
    atomic_store(&workers->next, 0);
    workers->busy = workers->count - 1;
    workers->round++;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
    take_items(workers, scratch);
    pthread_mutex_lock(&workers->lock);
    while (workers->busy) pthread_cond_wait(&workers->finished, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}
