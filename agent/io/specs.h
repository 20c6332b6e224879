/* specs.h: the job files that came with orders, kept until a launch or a check needs them. An order
 * goes through the core without its text; its job and revision name it here. The newest
 * SPECS_MAX are kept; what is pushed out comes again with the next session. */
#ifndef KEEPSTEP_AGENT_SPECS_H
#define KEEPSTEP_AGENT_SPECS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/io/agent_io.h"

enum { SPECS_MAX = 8 };

struct agent_specs *specs_create(void);
struct agent_specs *specs_free(struct agent_specs *specs);

/* Copies text; revision 0: it came with a check. */
void specs_put(struct agent_specs *specs, uint32_t job, uint32_t revision, const char *text,
               size_t size);
/* The text of (job, revision), revision 0: the newest of the job; NULL when it is not here.
 * Borrowed until the next specs_put. */
const char *specs_get(const struct agent_specs *specs, uint32_t job, uint32_t revision,
                      size_t *ret_size);

#endif
