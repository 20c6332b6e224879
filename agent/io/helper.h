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
 *   check DIR STEP ATT FOLDER
 *                        DIR can be listed; with STEP > 0 one byte of FOLDER is read, of
 *                        DIR/step-STEP.a-ATT when it is ""
 *   list DIR PARTS 0 FORMAT JOB
 *   list DIR 0 0 marker FILE
 *                        which checkpoints are there (save_list.h), a line of JSON each (save_order.h)
 *   verify FOLDER STEP ATT HASH JOB
 *   remove FOLDER STEP ATT HASH JOB
 *                        one of them (save_check.h); lines of progress and of the outcome
 *   follow PATHS 0 0 PATTERN USED
 *                        the steps that ranks print, as they print them (step_follow.h)
 *   run DIR 0 0 PROGRAM JOB
 *                        becomes the site's PROGRAM with DIR and JOB as its arguments */
#ifndef KEEPSTEP_AGENT_HELPER_H
#define KEEPSTEP_AGENT_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/io/child.h"
#include "proto/base/err.h"

#define HELPER_WORD "helper"

struct helper_task {
    const char *verb;
    const char *path;
    uint64_t number;   /* MAX, STEP, PARTS */
    uint32_t number2;  /* ATT */
    const char *text;  /* FOLDER, FORMAT, HASH, PATTERN, PROGRAM; NULL = "" */
    const char *text2; /* JOB, FILE, USED; NULL = "" */
    bool quiet;        /* its output goes to `line` alone, and the deadline is one of silence */
    child_line *line;  /* called for each line of its output; may be NULL */
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
