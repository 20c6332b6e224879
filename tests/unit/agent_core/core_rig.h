/* core_rig.h: an agent's core in a test's hands: events in, and what came out of the last step. */
#ifndef KEEPSTEP_TESTS_AGENT_CORE_RIG_H
#define KEEPSTEP_TESTS_AGENT_CORE_RIG_H

#include "agent/core/agent_core.h"

enum { RIG_RECORDS_MAX = 4096, RIG_TRACE_MAX = 65536 };

#define RIG_CLUSTER       "0123456789abcdef0123456789abcdef"
#define RIG_OTHER_CLUSTER "ffffffffffffffffffffffffffffffff"

struct core_rig {
    struct agent_limits limits;
    struct agent_identity identity;
    struct agent_core *core;
    struct agent_output *output; /* of the last step */
    uint64_t now_ms;
    uint64_t wall_ms;
    uint64_t sequence; /* of the last order */
    uint64_t term;
    uint32_t record_count; /* all that were ever put out */
    struct agent_record records[RIG_RECORDS_MAX];
    char trace[RIG_TRACE_MAX]; /* since rig_trace_begin, without times */
};

void rig_open(struct core_rig *rig);
void rig_close(struct core_rig *rig);
/* A test of cmocka that finds an open rig of its own in *state. */
#define RIG_TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
int rig_setup(void **state);
int rig_teardown(void **state);
/* A new process: a fresh core that replays all records, then START and SCANNED of everything. */
void rig_restart(struct core_rig *rig);
/* As rig_restart, up to START only. */
void rig_restart_unscanned(struct core_rig *rig);

/* Steps, checks every invariant and that a replay of all records has the same digest. */
void rig_step(struct core_rig *rig, struct agent_event *event);
void rig_simple(struct core_rig *rig, uint8_t kind);
void rig_tick(struct core_rig *rig, uint64_t ms); /* later */
/* TICKs at every deadline until that much time has passed. */
void rig_pass(struct core_rig *rig, uint64_t ms);
void rig_message(struct core_rig *rig, const struct message *message);

/* START, scan answered, connected, welcomed with RIG_CLUSTER and term 1. */
void rig_begin(struct core_rig *rig);
void rig_connect(struct core_rig *rig);

struct msg_desired rig_run_order(struct core_rig *rig, uint32_t job, uint32_t attempt);
struct msg_desired rig_stop_order(struct core_rig *rig, uint32_t job, uint32_t attempt);
void rig_order(struct core_rig *rig, const struct msg_desired *desired);
void rig_run(struct core_rig *rig, uint32_t job, uint32_t attempt);
void rig_stop(struct core_rig *rig, uint32_t job, uint32_t attempt);
void rig_scanned(struct core_rig *rig, uint32_t job);

/* A shim of two ranks, running, of our cluster; change it, then rig_shim. */
struct agent_shim_view rig_view(void);
void rig_shim(struct core_rig *rig, uint32_t job, uint32_t attempt,
              const struct agent_shim_view *view);
void rig_orphans(struct core_rig *rig, uint32_t job, uint32_t attempt, uint32_t count, bool proven);
/* RUN, scan, START seen, shim up and started. */
void rig_running(struct core_rig *rig, uint32_t job, uint32_t attempt);
/* The shim says that both ranks ended so and that nothing is left. */
void rig_ended(struct core_rig *rig, uint32_t job, uint32_t attempt, uint8_t state, int32_t code);

/* The index-th action of a kind in the last step, or NULL; for SEND use rig_sent. */
const struct agent_action *rig_action(const struct core_rig *rig, uint8_t kind, uint32_t index);
const struct message *rig_sent(const struct core_rig *rig, uint8_t message_kind);
uint32_t rig_actions(const struct core_rig *rig, uint8_t kind);
struct agent_counters rig_counters(const struct core_rig *rig);
bool rig_recorded(const struct core_rig *rig, uint8_t kind); /* in the last step */
/* State of (job, attempt), AGENT_ATTEMPT_NONE when it is not kept; report may be NULL. */
uint8_t rig_state(const struct core_rig *rig, uint32_t job, uint32_t attempt,
                  struct attempt_report *ret_report);
void rig_trace_begin(struct core_rig *rig);

#endif
