/* site_program.h: runs one of the site's programs for nodes: the one that cuts a node off (power,
 * switch port), and those that mend one (reset, reboot, diag, ticket).
 *
 * The program gets the node's name and address as its two arguments, /dev/null as input, and as
 * environment PATH, KEEPSTEP_NODE and, where it mends, KEEPSTEP_REPAIR (NODE-ORDER, the same when it
 * is started again for the same order), KEEPSTEP_LANE, KEEPSTEP_INCIDENT ("" = of none) and
 * KEEPSTEP_REASON. It leads a process group of its own. What it prints goes to our log, bounded; its
 * last line is kept. After its time it is killed with all of its group. A new controller may start it
 * again while the first one still runs: it must bear that. Status 0 means that it did what it is
 * for; whether the node is empty, or fit, is still shown by the agent, never by this. */
#ifndef KEEPSTEP_IO_SITE_PROGRAM_H
#define KEEPSTEP_IO_SITE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "proto/base/message.h"

enum {
    SITE_RUNS_MAX = 16,   /* of one program at a time */
    SITE_LINES_MAX = 100, /* of one run that go to the log */
    SITE_FENCE_TIMEOUT_MS = 60000,
    SITE_MEND_TIMEOUT_MS = 30 * 60000,
};

struct site_program;

struct site_order {
    uint32_t node;
    uint32_t order; /* 0: not a repair */
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    char lane[NAME_SIZE];
    char incident[NAME_SIZE]; /* "I-0042" or "" */
    char reason[TEXT_SIZE];
};

struct site_end {
    uint32_t node;
    uint32_t order;
    bool ok;              /* it ended by itself with status 0 */
    char text[TEXT_SIZE]; /* how it ended, if not so, and the last line that it printed; UTF-8 */
};

/* Called once for each site_program_start(), possibly from within it, but never after
 * site_program_close(). */
typedef void site_ended(void *context, const struct site_end *end);

/* word: what it is, for the log ("fence_node"), borrowed for good; program: absolute path, copied. */
struct site_program *site_program_create(uv_loop_t *uv, const char *word, const char *program,
                                         uint32_t timeout_ms, site_ended *ended, void *context);
/* Starts it; above SITE_RUNS_MAX at a time it waits its turn. The order is copied. A failure to start
 * is logged, and an end that is not ok. */
void site_program_start(struct site_program *site, const struct site_order *order);
uint32_t site_program_running(const struct site_program *site);
/* Kills what runs, forgets what waits; site_program_free() once the uv loop has ended. Both take
 * NULL. */
void site_program_close(struct site_program *site);
struct site_program *site_program_free(struct site_program *site);

#endif
