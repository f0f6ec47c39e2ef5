/* Included before every file of llama.cpp when it is built with the ohos-sdk.
 *
 * OpenHarmony's C library has the affinity calls of the kernel (sched_*) but not those of POSIX threads,
 * and shows the former only with _GNU_SOURCE, which llama.cpp sets for Linux and Android alone.
 * llama.cpp only ever sets the affinity of the calling thread, which is what pid 0 means.
 */
#if defined(__OHOS__) && !defined(__ASSEMBLER__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#define pthread_setaffinity_np(thread, size, set) ((void)(thread), sched_setaffinity(0, (size), (set)))
#define pthread_getaffinity_np(thread, size, set) ((void)(thread), sched_getaffinity(0, (size), (set)))
#endif
