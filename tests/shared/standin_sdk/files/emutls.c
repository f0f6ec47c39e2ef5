/* Emulated thread-local storage for the OHOS targets.
 *
 * clang turns each access to a thread_local variable of an OHOS target into a call of __emutls_get_address. Debian's
 * ones do not do on musl: libgcc's asks glibc symbols whether there are threads, and compiler-rt's frees a thread's
 * variables before the destructors of its thread_local objects have run. So the stand-in SDK brings its own.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The layout that clang emits for every thread_local variable. */
struct control {
    size_t size;
    size_t align;
    uintptr_t index; /* 0 until the variable is used for the first time in any thread */
    const void *initial; /* NULL: zeros */
};

/* One thread's copies; slot i belongs to the variable with index i + 1. */
struct thread_data {
    uintptr_t rounds_left;
    uintptr_t count;
    void *slots[];
};

/* C++ destructors of thread_local objects hang on a pthread key of their own, and may still use variables: the copies
 * are kept for all but the last of the four rounds in which musl calls key destructors. */
enum { ROUNDS_TO_WAIT = 2, GROWTH = 16 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static uintptr_t used;

static void end_thread(void *pointer) {
    struct thread_data *data = pointer;
    if (data->rounds_left > 0) {
        data->rounds_left -= 1;
        pthread_setspecific(key, data);
        return;
    }
    for (uintptr_t slot = 0; slot < data->count; slot++)
        free(data->slots[slot]);
    free(data);
}

static void start(void) {
    if (pthread_key_create(&key, end_thread) != 0)
        abort();
}

static uintptr_t index_of(struct control *control) {
    uintptr_t index = __atomic_load_n(&control->index, __ATOMIC_ACQUIRE);
    if (index != 0)
        return index;
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    index = control->index;
    if (index == 0) {
        index = ++used;
        __atomic_store_n(&control->index, index, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return index;
}

static struct thread_data *data_with(uintptr_t count) {
    struct thread_data *data = pthread_getspecific(key);
    const uintptr_t had = data == NULL ? 0 : data->count;
    if (data != NULL && had >= count)
        return data;
    const uintptr_t now = count + GROWTH;
    const uintptr_t rounds = data == NULL ? ROUNDS_TO_WAIT : data->rounds_left;
    data = realloc(data, sizeof *data + now * sizeof data->slots[0]);
    if (data == NULL)
        abort();
    memset(data->slots + had, 0, (now - had) * sizeof data->slots[0]);
    data->rounds_left = rounds;
    data->count = now;
    pthread_setspecific(key, data);
    return data;
}

static void *copy_of(const struct control *control) {
    void *copy = NULL;
    const size_t align = control->align < sizeof(void *) ? sizeof(void *) : control->align;
    if (posix_memalign(&copy, align, control->size) != 0)
        abort();
    if (control->initial != NULL)
        memcpy(copy, control->initial, control->size);
    else
        memset(copy, 0, control->size);
    return copy;
}

void *__emutls_get_address(struct control *control) {
    const uintptr_t index = index_of(control);
    struct thread_data *data = data_with(index);
    if (data->slots[index - 1] == NULL)
        data->slots[index - 1] = copy_of(control);
    return data->slots[index - 1];
}
