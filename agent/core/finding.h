/* finding.h: one reading of a probe, and the line in which a probe's process tells it. Pure.
 *
 * A probe (agent/probe) runs in a process of its own and prints lines; the agent reads them as it
 * would those of a stranger. A line is fields with a tab between them:
 *
 *     begin                      a round of readings begins
 *     state KEY VERDICT …        how one thing is now; once a round for each KEY
 *     event KEY VERDICT …        something that happened once
 *     note NAME VALUE            to be given back to the next process of this probe
 *     gpu INDEX UUID PCI         which GPU answers at which address, taken while it does
 *     end TEXT                   the round is over; TEXT is "" or why nothing could be read
 *
 * where … is LABEL ADVICE ROLE SIGNAL SUBJECT SOURCE GPU PORT CODE SEVERITY TEXT. KEY names the
 * thing by what does not change with a driver's numbering: a UUID, a device and port, a mount's
 * path. Tabs, newlines and other control bytes never stand inside a field. */
#ifndef KEEPSTEP_AGENT_FINDING_H
#define KEEPSTEP_AGENT_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"
#include "proto/base/signal.h"

enum {
    FINDING_KEY_SIZE = 96,
    FINDING_LINE_MAX = 1024, /* without its newline */
    FINDING_FIELDS_MAX = 16,
    NOTE_NAME_SIZE = 64,
    NOTE_VALUE_SIZE = 128,
};

#define FINDING_VERDICTS(X)                                                                        \
    X(OK, "ok")                                                                                    \
    X(WARN, "warn")                                                                                \
    X(FAIL, "fail")                                                                                \
    X(NOT_RUN, "not-run") /* it could not be read, which says nothing about the thing itself */

enum finding_verdict {
#define X(upper, word) VERDICT_##upper,
    FINDING_VERDICTS(X)
#undef X
};
const char *finding_verdict_word(uint8_t verdict); /* "?" when out of range */

struct finding {
    uint8_t verdict; /* enum finding_verdict */
    uint8_t label;   /* enum signal_label … */
    uint8_t advice;
    uint8_t role;
    uint8_t source;   /* FACT_PROBE or FACT_LOG */
    uint8_t severity; /* of the fact: 0 … 3 */
    int32_t gpu;      /* -1: not about a GPU */
    int32_t port;
    int32_t code;
    char key[FINDING_KEY_SIZE];
    char signal[SIGNAL_NAME_SIZE];
    char subject[SIGNAL_SUBJECT_SIZE];
    char text[TEXT_SIZE];
};

enum finding_line_kind { LINE_BEGIN, LINE_STATE, LINE_EVENT, LINE_NOTE, LINE_GPU, LINE_END };

struct finding_line {
    uint8_t kind;                /* enum finding_line_kind */
    struct finding finding;      /* STATE, EVENT */
    char name[NOTE_NAME_SIZE];   /* NOTE; GPU: its UUID */
    char value[NOTE_VALUE_SIZE]; /* NOTE; GPU: its PCI address */
    uint32_t index;              /* GPU */
    char text[TEXT_SIZE];        /* END */
};

/* The line (NUL-terminated, without newline) of anybody. -EINVAL: it is none of these, a number is
 * none or out of range, a text is too long or no clean UTF-8. Nothing is written then. */
MUST_CHECK int finding_line_parse(const char *line, size_t size, struct finding_line *ret_line);

/* The line of a STATE or EVENT, without newline. false: the target is too small, which
 * FINDING_LINE_MAX + 1 never is. Texts are made clean. */
bool finding_line_format(enum finding_line_kind kind, const struct finding *finding, char *target,
                         size_t size);

/* Every tab, newline and control byte becomes a space, what is no UTF-8 a '?'. */
void finding_clean(char *text);

/* Puts a fact together; job, attempt, node, sequence are 0, its rank is -1. */
void finding_fact(const struct finding *finding, struct fact *ret_fact);

#endif
