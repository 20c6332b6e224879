/* fail.h: why the trainer ends, as a code for programs and a sentence for people.
 *
 * Every fallible function of the trainer returns 0 or a negative errno value and fills the caller's
 * `struct fail` with the exit code that the process should end with and one sentence that says
 * what, where and what to do. fail_set() returns the errno value, so that one line reports. */
#ifndef KEEPSTEP_TRAINER_FAIL_H
#define KEEPSTEP_TRAINER_FAIL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FAIL_TEXT_SIZE = 512 };

/* The trainer's exit codes; part of its contract with whoever restarts it. */
enum trainer_exit {
    EXIT_DONE = 0,        /* all steps done, final weights written */
    EXIT_PEER = 1,        /* a peer or the network failed: another attempt may go on */
    EXIT_CHECKPOINT = 3,  /* the checkpoint to restore is torn, missing or of something else */
    EXIT_RENDEZVOUS = 4,  /* the ranks did not come together: port in use, absentee, refused */
    EXIT_LOCAL = 5,       /* this machine: text unreadable or other, memory, disk, output */
    EXIT_DEVICE = 6,      /* this machine: no GPU driver, no GPU, or one that failed */
    EXIT_VALIDATION = 17, /* the loss is not a finite number: stop and look */
    EXIT_RESTART = 75,    /* stopped as asked, state saved where it can be: start again */
    EXIT_BAD_CONFIG = 93, /* flags or environment are wrong: never restart */
};

struct fail {
    int exit_code;             /* enum trainer_exit */
    char text[FAIL_TEXT_SIZE]; /* NUL-terminated, cut at the size, no newline at the end */
};

#define MUST_CHECK __attribute__((warn_unused_result))

/* Fills fail and returns code, a negative errno value. */
int fail_set(struct fail *fail, int exit_code, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The system's text for a negative errno value: constant memory, not to be freed. */
const char *fail_errno_text(int code);

#ifdef __cplusplus
}
#endif

#endif
