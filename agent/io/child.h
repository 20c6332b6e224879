/* child.h: short-lived child processes with a deadline, and what they print.
 *
 * Everything that may hang on somebody else's file system runs in one of these. At the deadline the
 * child is killed and reported as timed out at once, without waiting: a process in D state may stay
 * for ever, and its small object with it. */
#ifndef KEEPSTEP_AGENT_CHILD_H
#define KEEPSTEP_AGENT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "proto/base/err.h"

enum { CHILD_OUTPUT_MAX = 2 << 20, CHILDREN_MAX = 32 };

struct child;

/* All children of a loop; zero it before use. */
struct child_set {
    struct child *first;
    uint32_t count;
};

struct child_result {
    bool timed_out;
    int64_t exit_status;
    int signal;         /* 0: it exited */
    const char *output; /* NUL-terminated; borrowed for the call */
    size_t output_size;
    bool output_cut; /* more than asked for came */
};
typedef void child_done(void *context, const struct child_result *result);
/* One line of the output, as it came, without its end (the last one need not have any); NUL-terminated
 * and borrowed for the call. */
typedef void child_line(void *context, const char *line, size_t size);

struct child_options {
    const char *const *argv; /* NULL-terminated; argv[0] is the program's path */
    int capture;             /* descriptor that is captured: 1 or 2; the other one: 1 is /dev/null,
                                2 is ours */
    size_t output_max;
    uint64_t deadline_ms;
    bool patient;     /* the deadline is one of silence: each output begins it anew */
    bool group;       /* a process group of its own, killed with it */
    child_line *line; /* lines go here and not into the result; output_max is of one line: from a
                         longer one on there are no more, and the result is output_cut */
    bool survives;    /* not killed at the deadline or the end of the agent */
    child_done *done; /* called once, never from within child_start */
    void *context;
};

/* -errno when it could not be started (then done is not called); -EAGAIN past CHILDREN_MAX. */
MUST_CHECK int child_start(uv_loop_t *loop, struct child_set *set,
                           const struct child_options *options);

/* Forgets those of this context: neither line nor done will be called; they are killed. */
void child_cancel(struct child_set *set, const void *context);

/* True: a child of this context is still there, though it may have been told long ago as timed out. */
bool child_lives(const struct child_set *set, const void *context);

/* Forgets all: no done will be called; those that do not survive are killed. */
void children_close(struct child_set *set);

#endif
