/* core.h: the whole decision-making of the controller behind six functions.
 *
 *     what happened (event) --core_step()--> what is now true (records) + what must be done
 * (actions)
 *
 * Pure and deterministic: time comes in with the event, randomness from the seed, all memory from
 * the limits in core_create. The same records replayed give the same state, and the same events the
 * same records, on every compiler. The driver's duties, in this order: append output.records to the
 * journal, commit, then carry out output.actions; arm its timer at core_deadline_ms. */
#ifndef KEEPSTEP_CORE_CORE_H
#define KEEPSTEP_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/event.h"
#include "controller/core/record.h"
#include "proto/base/err.h"

struct core;

/* Every size the core may ever need; passing one is a refusal with its name and number. What hangs
 * on each node or job has a bound per node or job, so that no other can use it up. */
struct core_limits {
    uint32_t agents;      /* nodes known at a time */
    uint32_t jobs;        /* jobs kept, ended ones included (oldest ended forgotten first) */
    uint32_t slots;       /* of all jobs that are not over */
    uint32_t incidents;   /* kept, closed ones included */
    uint32_t facts;       /* kept for open incidents */
    uint32_t recoveries;  /* kept, closed ones included */
    uint32_t checkpoints; /* kept, of all jobs */
    uint32_t foreign;
    uint32_t pending_records; /* undurable ones above which only a cancel is accepted */
};
extern const struct core_limits core_limits_default; /* 2,304 agents, 64 jobs */

/* Timings that a site may set; 0 in a field means its default. */
struct core_config {
    uint32_t start_grace_ms;      /* nobody is judged before this after a start: 15 s */
    uint32_t start_quiet_ms;      /* … and until no new agent came for this long: 3 s */
    uint32_t start_grace_max_ms;  /* … but at most this: 60 s */
    uint32_t reconnect_grace_ms;  /* 3 s */
    uint32_t beat_ms;             /* 1 s */
    uint32_t probe_timeout_ms;    /* 1 s */
    uint32_t evidence_quiet_ms;   /* 2 s */
    uint32_t evidence_max_ms;     /* 10 s */
    uint32_t evidence_gone_ms;    /* 300 ms after every rank is proven gone */
    uint32_t kill_extra_ms;       /* beyond the grace, then unclean: 10 s */
    uint32_t launch_timeout_ms;   /* absentee named and replaced: 20 s */
    uint32_t check_timeout_ms;    /* a spare's quick check: 5 s */
    uint32_t end_grace_ms;        /* 10 min */
    uint32_t agent_away_ms;       /* agent-down becomes lost: 10 min */
    uint32_t probation_ms;        /* 24 h */
    uint32_t repair_wait_ms;      /* before a fault is mended: 60 s; of a silent node twice that */
    uint32_t port_low, port_high; /* rendezvous ports: 29400..29999 */
    bool fence_hook;              /* a site hook exists */
    /* … for each of enum repair_hook_word */
    bool repair_hooks[repair_hook_count];
};

MUST_CHECK int core_create(const struct core_limits *limits, const struct core_config *config,
                           uint64_t seed, struct core **ret_core);
struct core *core_free(struct core *core);

/* Folds one durable fact; decides nothing, orders nothing. -EINVAL with the reason when the record
 * cannot belong to this state (a corrupt or foreign journal): nothing was changed. */
MUST_CHECK int core_replay(struct core *core, const struct record *record, struct err *err);
/* A row of this job could not be read: its later records that no longer fit are kept and ignored,
 * and nothing is decided about it. The job need not be known. Only before EVENT_START. */
void core_quarantine(struct core *core, uint32_t job);
/* The same of a row about this node (record_owner): it keeps its name and its slot, is neither
 * judged nor used nor told anything, and carries the mark recovery/quarantined from EVENT_START on,
 * until an operator removes it. A node whose first row is bad is made with this name, that of the
 * row's subject. -EINVAL: there is no such node, and it cannot be the next one either. */
MUST_CHECK int core_quarantine_node(struct core *core, uint32_t node, const char *name);

/* One event in, everything that follows from it out. Never fails: refusals are replies. */
void core_step(struct core *core, const struct event *event, struct core_output *ret_output);

/* Monotonic time at which the driver owes an EVENT_TICK; UINT64_MAX when nothing is due. */
uint64_t core_deadline_ms(const struct core *core);

void core_check(const struct core *core);      /* every invariant of state.h; aborts */
uint64_t core_digest(const struct core *core); /* the whole durable state */

/* The durable state as image records, in an order that core_replay accepts into a fresh core.
 * visit's non-zero result ends the walk and is returned. */
typedef int core_visit_record(const struct record *record, void *context);
MUST_CHECK int core_snapshot(const struct core *core, core_visit_record *visit, void *context);

#endif
