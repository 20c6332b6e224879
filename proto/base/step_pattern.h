/* step_pattern.h: the step in a line of a program's output: `hang.log_pattern` of a job file.
 *
 * A POSIX extended regular expression, with what everybody writes besides:
 *
 *   \d \s \w, \D \S \W   a digit, white space, a word's character, and none; in [ ] the first three
 *   \t, \. \( \/ …       a tab; a character that means itself
 *   (…)                  exactly one group, not repeated: it holds the step
 *   (?:…)                a group that holds nothing, for alternatives and repeats
 *   * + ? {n} {n,m}      repeats, each of them greedy
 *
 * There are no back references, no repeats of repeats and no other (?…). Lines are bytes: a dot is
 * one byte, and letters beyond ASCII only mean themselves. The group's text is decimal digits, with
 * commas between them or without.
 *
 * Patterns come from users, so what they may cost is bounded here: their length, the sum of their
 * counts and what their repeats come to (the compiler writes them out), and the length of a line.
 * What is left is a search of that line that never goes wrong, but with a bad pattern takes half a
 * minute and much memory for a single one: whoever searches needs a deadline and a limit of memory,
 * and compiles the pattern anew from time to time, since its memory grows with what it has seen. */
#ifndef KEEPSTEP_BASE_STEP_PATTERN_H
#define KEEPSTEP_BASE_STEP_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum {
    STEP_PATTERN_SIZE = 128, /* of a pattern's text, with the NUL */
    STEP_REPEATS_MAX = 64,   /* the sum of all counts in { } */
    STEP_LINE_SIZE = 4096,   /* of a line, with the NUL: what is behind is not looked at */
};

struct step_pattern;

/* -EINVAL with a sentence that says what is wrong and what to write instead; -ENOMEM. */
MUST_CHECK int step_pattern_compile(const char *text, struct step_pattern **ret_pattern,
                                    struct err *err);
struct step_pattern *step_pattern_free(struct step_pattern *pattern); /* takes NULL, gives NULL */

/* 1: the first match in the line (no more than STEP_LINE_SIZE - 1 bytes of it) holds a number of at
 * most INT64_MAX; 0: there is none; -ENOMEM. */
MUST_CHECK int step_pattern_find(const struct step_pattern *pattern, const char *line,
                                 uint64_t *ret_step);

#endif
