/* goodput_world.h: the world of a goodput run: what its files share.
 *
 *   goodput.c          the clock, sleep and waking, the run
 *   goodput_ctl.c      the driver of controller/core
 *   goodput_node.c     hosts, the driver of agent/core, processes
 *   goodput_train.c    the program: steps, saves, what is lost
 *   goodput_fault.c    failures, repairs, the operator
 *   goodput_evidence.c what nodes say of a failure, and what of it is lost
 *   goodput_watch.c    what the records say: phases, verdicts, evictions
 */
#ifndef KEEPSTEP_SIM_GOODPUT_WORLD_H
#define KEEPSTEP_SIM_GOODPUT_WORLD_H

#include "agent/core/agent_core.h"
#include "controller/core/core.h"
#include "controller/core/state.h"
#include "controller/sim/goodput.h"
#include "proto/base/check.h"
#include "proto/base/heap.h"
#include "proto/base/prng.h"

enum {
    GP_BEGIN_MS = 1000000, /* no clock begins at 0 */
    GP_BEAT_MS = 1000,
    GP_COMMIT_MS = 2,
    GP_SHIMS = 6,
    GP_PROBES = 4,
    GP_FAULTS_MAX = 16384,
    GP_OTHER = GOODPUT_CATEGORIES_MAX, /* a cause that is none of the categories */
};

enum gp_event {
    GP_EV_TICK,       /* number: node */
    GP_EV_TURN,       /* the controller looks at what the messages of this moment lead to */
    GP_EV_ACT,        /* a commit is durable: held actions leave */
    GP_EV_DIALED,     /* number: node */
    GP_EV_SCANNED,    /* number: node */
    GP_EV_CHECKED,    /* number: node */
    GP_EV_VALIDATED,  /* number: node */
    GP_EV_PROBED,     /* number: node */
    GP_EV_SHIM_UP,    /* number: node */
    GP_EV_SHIM_ENDED, /* number: node */
    GP_EV_SWEPT,      /* number: node */
    GP_EV_SUBMIT,
    GP_EV_PHASE,     /* the program ends its init or its load; number: attempt */
    GP_EV_FIRST,     /* … its first step */
    GP_EV_SAVE,      /* a save begins; number: attempt */
    GP_EV_DURABLE,   /* … is written; number: attempt */
    GP_EV_COMMIT,    /* … all ranks have told of their part; number: attempt */
    GP_EV_STRIKE,    /* the next failure */
    GP_EV_HOST_DOWN, /* the same, when it is a host that falls silent */
    GP_EV_DRAIN,     /* the next planned drain */
    GP_EV_SIGN,      /* number: fault */
    GP_EV_REPAIRED,  /* number: node */
    GP_EV_PERSON,    /* somebody looks at a job that is held */
    GP_EV_PROBATION, /* of one node it is over; number: node */
    GP_EV_LONE_TICK, /* its next beat, while the others sleep; number: node */
    GP_EV_WAKE,      /* something comes soon that must find the fleet awake */
    GP_EV_END,
};

struct gp_shim {
    bool used;
    bool up;
    bool started;
    bool empty;
    bool told;
    bool ended; /* its ranks have */
    uint32_t job;
    uint32_t attempt;
    uint32_t first_rank;
    uint32_t rank_count;
    uint8_t state; /* enum rank_state of all its ranks */
    int32_t code;
    uint64_t end_sequence;
    uint64_t end_ms;
    char cluster_id[CLUSTER_ID_SIZE];
    char job_name[NAME_SIZE];
};

struct gp_node {
    struct agent_core *core;
    bool up;
    uint64_t skip_ms; /* its clock has stood still for so long */
    uint64_t tick_ms; /* its tick is due then; 0 none is planned */
    uint64_t due_ms;  /* what its core said last, on its own clock */
    uint64_t session;
    uint64_t boots;
    uint64_t boot_ms;
    uint64_t check_nonce;
    uint64_t validate_nonce;
    uint32_t scan_job;
    uint32_t swept_job;
    uint32_t swept_attempt;
    struct agent_probe probes[GP_PROBES]; /* first in, first out */
    uint32_t probe_count;
    uint8_t shown_phase; /* what its agent read last in the mailboxes */
    uint64_t shown_step;
    uint32_t shown_attempt;
    struct gp_shim shims[GP_SHIMS];
    /* truth about it */
    uint32_t fault;    /* index + 1 of the one that needs a repair; 0 none */
    uint64_t back_ms;  /* when it is given back */
    uint32_t lemon;    /* how much likelier it fails, 1/65536 */
    uint64_t doubt_ms; /* something began on it then, and its restart cured it; 0 never */
};

struct gp_held {
    uint64_t due_ms;
    struct action action;
};

struct gp_ctl {
    struct core *core;
    uint64_t last_ms;  /* of its last step */
    uint64_t idle_ms;  /* slept, and not told yet */
    uint64_t slept_ms; /* told, in all */
    bool turn_due;
    uint64_t tick_ms;
    uint64_t durable_ms; /* records are durable then */
    struct gp_held *held;
    uint32_t held_count;
    uint32_t held_capacity;
    uint64_t act_ms; /* planned; 0 none */
};

enum gp_train_state {
    GP_TRAIN_NONE,
    GP_TRAIN_INIT,
    GP_TRAIN_LOAD,
    GP_TRAIN_STEP,
    GP_TRAIN_LEAVING, /* a save before a planned stop */
    GP_TRAIN_OVER,
};

struct gp_train {
    uint8_t state;
    uint32_t attempt;
    uint32_t joined; /* slots whose ranks are up */
    uint32_t slots;
    uint64_t wanted_step; /* the controller's choice */
    uint32_t wanted_attempt;
    uint64_t restore_step;
    uint64_t base_step; /* steps at base_ms; from then on one each step_ms */
    uint64_t base_ms;
    uint64_t halt_ms;     /* nothing moves since; 0 */
    uint64_t saving_step; /* a save under way; 0 none */
    uint64_t durable_ms;  /* … is then */
    uint64_t next_save_ms;
    uint32_t save_seen;
    uint32_t save_request;
    bool stop_request;
    uint32_t shards; /* answered */
    uint64_t mail_next;
    /* truth */
    uint64_t good_step;  /* the newest durable save */
    uint64_t clean_step; /* … that was begun before a corruption; used while `corrupt` */
    bool corrupt;        /* what it computes now is wrong */
    bool tainted;        /* saves of these attempts after this step are known to be */
    uint64_t taint_step;
    uint32_t taint_attempt;
    bool stepping;       /* its time is being counted */
    uint64_t stepped_ms; /* time spent in steps, in all attempts */
    uint64_t lost_ms;    /* … of it taken back */
    uint64_t down_ms;    /* since when training stands; 0: it does not */
    uint32_t cause;      /* category, or GP_OTHER */
    bool began;          /* a first step was begun, in any attempt */
    uint64_t acted_ms;   /* when the controller opened the recovery */
};

struct gp_fault {
    uint32_t category;
    uint32_t node;
    uint64_t at_ms;
    bool judged; /* a verdict was compared with it */
    bool again;  /* it was not seen, or nobody is sure to act on it: it comes again */
};

struct gp_watch {
    uint32_t *samples[phase_count + 1]; /* the last: whole recoveries */
    uint32_t sample_count[phase_count + 1];
    uint64_t opened_ms;
    uint64_t phase_ms; /* when the present phase began */
    uint8_t phase;
    bool open;
    bool planned;
    uint32_t category; /* of the failure that the last verdict was about */
};

struct gp {
    struct goodput_options options;
    struct goodput_result *result;
    struct prng prng;
    struct prng evidence; /* apart, so that what is lost changes no failure */
    uint64_t now_ms;
    struct heap heap;
    struct heap_item *items;
    uint64_t event_next;
    bool over;
    bool asleep;
    bool reading; /* mailboxes, before a beat */
    uint64_t slept_from_ms;
    uint64_t news_ms;  /* something happened then */
    uint64_t steps_ms; /* while asleep: when the first thing comes before which all must beat */
    uint64_t again_ms; /* not before then is it looked whether it may sleep */
    struct gp_ctl ctl;
    struct gp_node *nodes;
    uint32_t slots;
    struct gp_train train;
    struct gp_fault *faults;
    uint32_t fault_count;
    uint32_t given_next;
    uint64_t gap_ms;        /* mean time between failures */
    uint32_t next_category; /* of the one that is planned */
    bool next_together;
    uint64_t sign_ms; /* of the newest failure: until then its halt goes unnoticed */
    uint32_t planned_category;
    uint64_t drain_gap_ms;
    uint32_t interval_steps;
    uint64_t session_next;
    uint64_t request_next;
    uint32_t job;
    uint64_t submit_ms;
    uint64_t person_ms; /* looks at it then; 0 */
    struct agent_output *output;
    struct agent_limits limits;
    struct gp_watch watch;
};

/* goodput.c */
void gp_at(struct gp *gp, uint64_t at_ms, enum gp_event kind, uint32_t number);
void gp_news(struct gp *gp); /* the fleet stays awake until all have said what they know … */
void gp_news_for_beats(struct gp *gp); /* … and until what they say with the next beat is said */
void gp_trace(struct gp *gp, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* goodput_ctl.c */
void gp_ctl_start(struct gp *gp);
void gp_ctl_event(struct gp *gp, struct event *event); /* one of several of this moment */
void gp_ctl_message(struct gp *gp, uint32_t node, const struct message *message);
void gp_ctl_turn(struct gp *gp);
void gp_ctl_act(struct gp *gp);
void gp_ctl_arm(struct gp *gp);
void gp_ctl_request(struct gp *gp, struct request *request);
void gp_ctl_done(struct gp *gp);

/* goodput_node.c */
void gp_node_start(struct gp *gp, uint32_t node); /* its host boots, its agent starts */
void gp_node_down(struct gp *gp, uint32_t node);  /* without a word */
void gp_node_align(struct gp *gp, uint32_t node, uint64_t from_ms); /* its clock stood still */
void gp_node_arm(struct gp *gp, uint32_t node);
void gp_node_tick(struct gp *gp, uint32_t node);
void gp_node_tick_alone(struct gp *gp, uint32_t node); /* its next one, also while all sleep */
void gp_node_message(struct gp *gp, uint32_t node, const struct message *message);
void gp_node_event(struct gp *gp, uint32_t node, enum gp_event kind);
void gp_node_fact(struct gp *gp, uint32_t node, const struct fact *fact);
void gp_node_read(struct gp *gp, uint32_t node); /* its agent reads the mailboxes */
void gp_node_mail(struct gp *gp, uint32_t node, uint32_t rank, const struct msg_checkpoint *mail);
void gp_node_ranks_end(struct gp *gp, uint32_t node, uint8_t state, int32_t code);
struct gp_shim *gp_shim_find(struct gp_node *node, uint32_t job, uint32_t attempt);
void gp_node_done(struct gp *gp, uint32_t node);

/* goodput_train.c */
void gp_train_join(struct gp *gp, const struct msg_desired *order);
void gp_train_up(struct gp *gp, uint32_t attempt);
void gp_train_halt(struct gp *gp, uint32_t cause); /* nothing moves any more */
void gp_train_acted(struct gp *gp);                /* the controller opened a recovery */
void gp_train_corrupt(struct gp *gp, bool known);
bool gp_train_is_up(const struct gp *gp);            /* all ranks of the attempt have started */
void gp_train_gone(struct gp *gp, uint32_t attempt); /* a rank of it ended */
void gp_train_event(struct gp *gp, enum gp_event kind, uint32_t number);
void gp_train_answer(struct gp *gp, const struct agent_action *action);
void gp_train_request(struct gp *gp, const struct agent_action *action);
uint64_t gp_train_step(const struct gp *gp);  /* completed now */
uint64_t gp_train_shown(const struct gp *gp); /* … as mailboxes show it */
uint8_t gp_train_phase(const struct gp *gp);
void gp_train_end(struct gp *gp); /* settles the accounts */

/* goodput_fault.c */
void gp_fault_start(struct gp *gp);
void gp_fault_event(struct gp *gp, enum gp_event kind, uint32_t number);
uint32_t gp_node_index(const struct gp *gp, uint32_t id); /* of the core's node id */

/* goodput_evidence.c: the node and some others tell of its fault. false: what the node itself had to
 * say was lost. *ret_stops: had it come, the controller would stop the attempt for it. */
bool gp_evidence_show(struct gp *gp, uint32_t node, const char *category, bool *ret_stops);

/* goodput_watch.c */
void gp_watch_record(struct gp *gp, const struct record *record);
void gp_watch_end(struct gp *gp);

#endif
