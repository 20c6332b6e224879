/* incident_line.h: one line of Keepstep's own agents and controller, in the notation of incident
 * files:
 *
 *   agent   mlx5_3/1 state=1:DOWN phys_state=3:Disabled link_downed=+1 [leaf=NAME]
 *           gpu=2 clocks_event_reasons=0x48 (hw_slowdown,…) sm_clock=720 temp=88
 *           gpu_count=7 expected=8 | gpu_count=unknown
 *           nvml: TEXT; …
 *           nvml_poll stuck 45 s gpu=2; heartbeat ok
 *           rank=6410 comm=tp/801 last_enqueued=9 last_completed=9 state=running|waiting|silent …
 *           rank=3554 step=51000 compute_ms=17400 wait_ms=110 peers_median_compute_ms=7400
 *   ctl     heartbeat missed 3; last_seq=9; bmc=reachable|unreachable; rack=NAME
 *           job 17 stop requested by operator NAME
 *           job 17 attempt 3 ended: rank 6 exit 1
 *           job 17 step 41207 ok 14.9 s
 *           hash step=9 stage=3 tp=2 majority=H minority dp=77 hash=H
 *
 * Words that a kind does not know are passed over, in any order. */
#ifndef KEEPSTEP_TOOLS_INCIDENT_LINE_H
#define KEEPSTEP_TOOLS_INCIDENT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/message.h"

enum told_kind {
    TOLD_OTHER, /* none of these: a catalogue may know it */
    TOLD_PORT,
    TOLD_CLOCKS,
    TOLD_GPU_COUNT,
    TOLD_UNREADABLE,
    TOLD_GPU_LOST, /* the library knows that a GPU is gone; count 1: or wants a reset */
    TOLD_RANK,     /* where it is in a communicator */
    TOLD_PACE,     /* how long it computes */
    TOLD_BEATS,
    TOLD_STOP,
    TOLD_ENDED,
    TOLD_STEP,
    TOLD_HASH,
};

enum told_state { TOLD_RUNNING, TOLD_WAITING, TOLD_SILENT };

struct told {
    uint8_t kind;  /* enum told_kind */
    uint8_t state; /* RANK: enum told_state */
    bool up;       /* PORT; BEATS: the machine behind the node can be reached */
    int64_t rank;
    int64_t gpu;
    int64_t count;    /* PORT: times down; GPU_COUNT, BEATS: as told; ENDED: exit code, -signal */
    int64_t expected; /* GPU_COUNT */
    int64_t job;
    int64_t attempt;
    int64_t step;
    int64_t compute_ms;
    int64_t median_ms;
    int64_t enqueued;
    int64_t completed;
    int64_t stage; /* HASH */
    int64_t tensor;
    char name[NAME_SIZE];  /* PORT: device; RANK: communicator; HASH: dp, as a list; STOP: who */
    char place[NAME_SIZE]; /* PORT: leaf; BEATS: rack; "" */
};

void told_read_agent(const char *line, size_t size, struct told *ret_told);
void told_read_ctl(const char *line, size_t size, struct told *ret_told);

/* What a line says about a value that is none, or far off: "step=41200 value=nan", with " all" behind
 * it when it is of all ranks together, as the loss is. false: nothing, or not at which step. */
bool told_value(const char *line, size_t size, char subject[SIGNAL_SUBJECT_SIZE]);

#endif
