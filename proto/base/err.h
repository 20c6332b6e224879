/* err.h: error texts for people, error codes for programs.
 *
 * Every fallible function of Keepstep returns 0 or a negative errno value. Where a person will read
 * the reason, the function also takes a caller-owned `struct err *` (may be NULL) and fills it with
 * one sentence that says what, where and what to do. err_set() returns the code it was given, so
 * that `return err_set(err, -EINVAL, "...", ...)` is one line. Pure: no I/O, no allocation. */
#ifndef KEEPSTEP_BASE_ERR_H
#define KEEPSTEP_BASE_ERR_H

#include <stddef.h>

enum { ERR_TEXT_SIZE = 256 };

struct err {
    int code;                 /* 0 or -errno */
    char text[ERR_TEXT_SIZE]; /* UTF-8, cut at the size; never ends in a newline */
};

/* The result must be looked at; ignore it only with (void) and a reason. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* Fills err (when not NULL) and returns code. code must be negative. */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text that err already has. Keeps its code and returns it. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
