/* step_reader.h: the newest step in a stream of a rank's output, which may be anything.
 *
 * Bytes go in as they come, in pieces of any size; a line ends at a newline or a carriage return
 * (programs that draw a bar write no other end), and only whole lines are looked at: of the line
 * that is still being written the number may not be complete. Of a longer line than STEP_LINE_SIZE
 * its beginning is looked at, the rest is passed over. NULs count as spaces. */
#ifndef KEEPSTEP_AGENT_STEP_READER_H
#define KEEPSTEP_AGENT_STEP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/step_pattern.h"

/* Zero it before use; nothing to free. */
struct step_reader {
    char line[STEP_LINE_SIZE];
    size_t size;   /* bytes of the line that has begun */
    bool skip;     /* … its beginning is not known: it counts for nothing */
    bool found;    /* a line has told of a step since this was last set to false */
    uint64_t step; /* the newest one, with found */
};

/* -ENOMEM: the pattern needs more memory than there is. */
MUST_CHECK int step_reader_put(struct step_reader *reader, const struct step_pattern *pattern,
                               const char *bytes, size_t size);

/* What follows is not the continuation of what came. line_begins: it is the beginning of a line;
 * else everything up to the next end of a line is skipped. */
void step_reader_jump(struct step_reader *reader, bool line_begins);

#endif
