/* helper.h: what must be done with another user's rights: a child of this same program.
 *
 * `keepstep-agent helper VERB …` sets groups, gid and uid before it opens anything, does one thing,
 * prints the result and exits 0; or prints one sentence and exits with an errno. Verbs:
 *
 *   read PATH MAX        the file's content, at most MAX bytes (more: an error)
 *   tail PATH MAX        its last MAX bytes, with a line where a part was dropped (output.h)
 *   trim PATH MAX        drops the middle of an output of more than MAX bytes; prints the bytes
 *                        that are there and those that are not, "kept K D", or "cut K D" where it
 *                        could not be done with a hole
 *   check DIR STEP ATT   DIR can be listed; with STEP > 0 one byte of DIR/step-STEP.a-ATT is read */
#ifndef KEEPSTEP_AGENT_HELPER_H
#define KEEPSTEP_AGENT_HELPER_H

#include <stdint.h>

#include "agent/io/child.h"
#include "proto/base/err.h"

#define HELPER_WORD "helper"

struct helper_task {
    const char *verb;
    const char *path;
    uint64_t number;  /* MAX or STEP */
    uint32_t number2; /* ATT */
    uint32_t uid;
    uint32_t gid;
    uint32_t group_count;
    const uint32_t *groups;
};

/* As child_start; all of the task is copied. */
MUST_CHECK int helper_start(uv_loop_t *loop, struct child_set *set, const struct helper_task *task,
                            uint64_t deadline_ms, child_done *done, void *context);

/* The child's main(): argv[1] is HELPER_WORD. Returns the exit status. */
int helper_main(int argc, char **argv);

#endif
