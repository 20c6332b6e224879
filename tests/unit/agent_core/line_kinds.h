/* line_kinds.h: kinds of lines, as the programs that print them spell them, and what each means. */
#ifndef KEEPSTEP_TESTS_UNIT_AGENT_CORE_LINE_KINDS_H
#define KEEPSTEP_TESTS_UNIT_AGENT_CORE_LINE_KINDS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/signal.h"
#include "tests/unit/agent_core/line_make.h"

struct line_kind {
    enum line_carrier carrier;
    uint8_t label;
    uint8_t advice;
    const char *format; /* for line_make() */
};

extern const struct line_kind line_kinds[];
extern const size_t line_kind_count;

#endif
