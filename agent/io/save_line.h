/* save_line.h: the lines of save_order.h, read back by the agent. A site's own reader prints them
 * too, so nothing in them is believed before it was looked at. */
#ifndef KEEPSTEP_AGENT_SAVE_LINE_H
#define KEEPSTEP_AGENT_SAVE_LINE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

/* One line that tells of a checkpoint; wall_ms is now. -EINVAL: it is none; err says why. */
MUST_CHECK int save_line_parse(const char *line, size_t size, uint64_t wall_ms,
                               struct msg_save_said *ret_said, struct err *err);

/* A member of a line: 0 or "" when it is not there, or nothing of that kind. The text is borrowed. */
uint64_t save_line_number(const json_t *tree, const char *key);
const char *save_line_text(const json_t *tree, const char *key);

#endif
