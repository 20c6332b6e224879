/* agent_rig.h: a real agent with a real shim, in folders of its own, against a fake controller. */
#ifndef KEEPSTEP_TESTS_AGENT_RIG_H
#define KEEPSTEP_TESTS_AGENT_RIG_H

#include "tests/unit/agent_io/fake_controller.h"

struct agent_rig {
    struct fake_controller fake;
    char dir[96];
    char node[32];   /* name of the agent's node, no other rig's */
    char agent[512]; /* path of keepstep-agent */
    pid_t pid;       /* 0: none runs */
    char spec[4096];
    char crash_at[32]; /* --crash-at of the next start; "" = none */
    char extra[192];   /* one more flag of every start; "" = none */
    char probes[512];  /* --probes of every start; "" = none of them run */
    uint32_t probe_flag_count;
    char probe_flags[6][192]; /* more flags of every start */
};

/* false: the programs are not built where KEEPSTEP_BUILD says (the test is skipped). */
bool rig_open(struct agent_rig *rig);
/* Ends the agent and every process that this rig's jobs left; a second call does nothing. */
void rig_close(struct agent_rig *rig);

/* Asks a running agent to end; false when it does not end with 0 (a leak, a sanitizer's report). */
bool rig_ends_well(struct agent_rig *rig);

void rig_start(struct agent_rig *rig);
void rig_kill(struct agent_rig *rig);           /* SIGKILL, reaped */
int rig_end(struct agent_rig *rig, int number); /* signal, wait; the exit status or -signal */
bool rig_is_dead(struct agent_rig *rig);        /* reaps it when it is */

/* The spec of a job whose ranks run `script` with sh; {dir} stands for the rig's folder. */
void rig_script(struct agent_rig *rig, const char *script);
/* run.log_max of the spec that rig_script has made. */
void rig_limit_output(struct agent_rig *rig, uint64_t bytes);
void rig_desire_run(struct agent_rig *rig, uint32_t job, uint32_t attempt, uint32_t rank_count);
void rig_desire_stop(struct agent_rig *rig, uint32_t job, uint32_t attempt, bool forget);

void rig_touch(const struct agent_rig *rig, const char *name);
/* Lines of a file in the rig's folder; 0 when it is not there. */
uint32_t rig_lines(const struct agent_rig *rig, const char *name);

/* Waits for what the newest report of (job, attempt) says. */
struct rig_state {
    uint32_t job;
    uint32_t attempt;
    bool running; /* all ranks run */
    bool empty;
    bool ended; /* all ranks have ended */
    bool absent;
};
bool rig_wait(struct agent_rig *rig, struct rig_state state, uint64_t ms);

#endif
