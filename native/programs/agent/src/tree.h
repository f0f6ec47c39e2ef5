/* The processes below the agent, found through /proc. */
#ifndef OHFORGE_TREE_H
#define OHFORGE_TREE_H

#include <stdbool.h>
#include <sys/types.h>

/* Makes processes whose parents die children of this one, so that none of the tree gets lost. False where the kernel
 * (or an emulator in its place) cannot: then the environment gets a mark by which they are found. Call it before
 * anything is started. */
bool tree_adopt_orphans(void);
/* Sends `number` to every living process of the tree: all descendants of this process, all members of the session
 * `session` (0: none), and all that carry the mark. Returns how many there were. With SIGKILL they are first stopped,
 * so that none can start another meanwhile. */
int tree_signal(pid_t session, int number);
/* How many there are. */
int tree_count(pid_t session);

#endif
