/* tree.h: the living descendants of a process, found in /proc, and signals to them.
 *
 * The shim is a subreaper: a descendant whose parent ends becomes the shim's child, so whatever a
 * rank forks, in whatever session, stays below the shim. One reading of /proc is not atomic: what
 * forks meanwhile is met by the next, and the caller repeats until nothing is left. */
#ifndef KEEPSTEP_SHIM_TREE_H
#define KEEPSTEP_SHIM_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/shim/record.h"

struct tree {
    struct shim_process *processes; /* malloc'ed; tree_done */
    size_t count;
    size_t capacity;
};

/* All descendants of root that still run (no zombies), parents before children. */
int tree_scan(int32_t root, struct tree *ret_tree);
void tree_done(struct tree *tree);

/* SIGKILL to every process of the tree and to every process group that one of them is in, except
 * to own_group. Each process is checked again by its start time behind a pidfd, so that a number
 * that was used again meanwhile is not hit. Returns how many were met. */
size_t tree_kill(const struct tree *tree, int32_t own_group);

/* Sends `signal_number` to one process if it is still this one. 0, -ESRCH, -errno. */
int tree_signal(const struct shim_process *process, int signal_number);

/* Calls visit for each process in /proc; a non-zero result ends the walk and is returned. */
typedef int tree_visit(int32_t pid, void *context);
int tree_each(tree_visit *visit, void *context);

#endif
