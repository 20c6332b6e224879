/* state.h: what the core holds, for those who read it: REST, metrics, the simulator's judges.
 *
 * Objects live in fixed arrays; `d` is the durable part, exactly the image record of its kind, and
 * changes only by folding records; the rest is soft state, rebuilt from the agents' next reports.
 * Pointers are borrowed and valid until the next core_step. What is read here may be newer than
 * what is durable: an answer that shows it must wait for the commit of the step before it. */
#ifndef KEEPSTEP_CORE_STATE_H
#define KEEPSTEP_CORE_STATE_H

#include "controller/core/core.h"

enum {
    PROBERS_MAX = 2,
    MARKS_PER_NODE = 16, /* and of these so many for others than the recovery, whose own few must */
    RANK_PHASES = PHASE_IDLE + 1,
    MARKS_OF_OTHERS = 12 /* always find room: they keep a node out of use */
};

/* Where the agent's link stands; "lost" itself is durable (node.d.lost). */
enum link_state {
    LINK_NONE, /* no session since this controller started */
    LINK_UP,
    LINK_SUSPECT,    /* third beat missed, or closed: the second opinion is being asked for */
    LINK_AGENT_DOWN, /* refused or frozen: the host lives, the agent does not */
};

/* First what is looked at for all nodes at a time, and changes with each beat: together it is two
 * lines of a cache, and a walk over the fleet reads no more of a node. */
struct node {
    uint8_t link;        /* enum link_state; soft, as all but d */
    bool set_aside;      /* rows about it cannot be read: no opinion, see core_quarantine_node */
    bool agent_silent;   /* its steps move although nobody reaches the agent */
    bool reported;       /* reports are of this process's lifetime */
    bool checks_ok;      /* a beat of this session said so */
    bool checks_bad;     /* a beat of this session said the contrary */
    bool no_prober;      /* the last round found nobody who could be asked */
    uint8_t answer;      /* strongest enum peer_answer of the last round; 255 none yet */
    uint32_t mark_count; /* marks that it has */
    uint32_t report_count;
    uint64_t session;    /* 0 = none */
    uint64_t beat_ms;    /* receipt of the last beat or hello */
    uint64_t suspect_ms; /* since when; 0 = is not */
    uint64_t goodbye_ms; /* until then its silence is expected; 0 = none */
    uint64_t fence_ms;   /* until then the site's hook is waited for; 0 = it is not */
    uint64_t probe_ms;   /* deadline of the round; 0 = none runs */
    uint64_t beat_sequence;
    uint64_t beat_sent_ms;   /* when its agent sent it, as far as its beats can tell */
    int64_t clock_offset_ms; /* least (receipt - sent) of this session in the last minute or two */
    int64_t clock_next_ms;   /* … of the minute that runs */
    uint64_t clock_turn_ms;  /* end of that minute; 0 = no beat yet */
    uint64_t ack_ms;         /* last ack sent */
    uint64_t ack_beat;       /* … and of which beat */
    struct record_image_node d;
    struct attempt_report *reports; /* up to ATTEMPTS_PER_NODE_MAX */
    uint64_t ends_sequence;
    /* of the last fact that this process has seen; d has that of the last one with an effect */
    uint64_t fact_sequence;
    uint32_t witness;       /* node of the same job whose steps tell that this one still works */
    uint64_t witness_step;  /* … at its first beat after this one became suspect */
    uint64_t closed_ms;     /* since when without a session; 0 = has one */
    uint8_t goodbye;        /* enum goodbye_kind */
    uint8_t answers;        /* probers that have answered in this round */
    uint8_t asked;          /* probers asked */
    uint8_t answer_probers; /* how many probers the answer of the last round rests on */
    uint8_t answer_now;     /* strongest one of the round that runs */
    uint32_t probers[PROBERS_MAX]; /* asked in this round; 0 once they have answered */
    uint64_t probe_nonce;
    /* The deadline of its repair's hook, or of the checks after it; 0: that hook was not started by
     * this controller. */
    uint64_t repair_ms;
    uint64_t repair_last_ms; /* … of these checks, however often its agent is asked anew */
    bool repair_would;       /* it was said how it would be mended, were automation not held */
    uint16_t minor;          /* of the protocol that its agent speaks */
    uint64_t validate_nonce; /* its agent was asked whether it is fit; 0 = it was not */
    uint64_t validate_ms;    /* deadline of that */
    uint64_t validate_again_ms;
    uint64_t check_nonce; /* quick check in flight; 0 = none */
    uint64_t check_ms;    /* its deadline */
    uint64_t checked_ms;  /* last passed check; 0 = never in this process */
    uint64_t new_session; /* a duplicate that waits for the old session's ping */
    uint64_t desired_sequence;
    bool would;          /* said what would become of it, were automation not held */
    bool run_sent;       /* this session has carried an order to run */
    uint64_t peers_told; /* hash of the list of peers that this session has carried; 0 = none */
};

struct mark {
    struct record_image_mark d;
};

struct slot {
    struct record_image_slot d;
    /* soft, of the current attempt */
    uint64_t step; /* least completed step of its ranks */
    uint64_t step_max;
    uint8_t phase;        /* least advanced enum rank_phase */
    bool started;         /* all ranks reported running (or ended) */
    bool initialised;     /* all left PHASE_INIT */
    bool restored;        /* all left PHASE_RESTORE */
    bool gone;            /* proven empty of the attempt being stopped */
    bool left;            /* a rank ended as a planned stop asked it to */
    bool mailbox;         /* its ranks use the library */
    bool mute;            /* they do not, as far as anybody can tell: nothing more will be shown */
    uint64_t started_ms;  /* monotonic: since when all of them run */
    bool checked;         /* incoming node's quick check passed for this attempt */
    uint64_t progress_ms; /* monotonic time of the last step or phase change of any of its ranks */
    uint64_t progress;    /* hash of the steps and phases that they report */
    uint8_t phases;       /* bits of enum rank_phase: those that its running ranks are in … */
    uint64_t phase_ms[RANK_PHASES]; /* … and since when one of them is */
    uint16_t misplaced; /* bits of local ranks whose program computed other coordinates */
    /* log_steps.c */
    bool prints;         /* step is the furthest that one of its ranks has printed */
    bool reads;          /* what they print is being read now */
    uint64_t used_ms;    /* processor time at used_at_ms, the beginning of a window */
    uint64_t used_at_ms; /* 0 = it is not known */
    uint64_t busy_ms;    /* when a window last showed its ranks at work */
};

enum { LOG_GAPS_MAX = 32, LOG_PAUSES_MAX = 4 };

/* What the steps that ranks print tell of the job: log_steps.c. */
struct log_steps {
    /* of the current attempt */
    uint64_t step;     /* the furthest one printed; 0 = none */
    uint64_t at_ms;    /* … when */
    uint64_t moved_ms; /* when any rank last printed another step than before; 0 = never */
    bool stepped;      /* it is beyond the restored step */
    bool said;         /* that it stands still without a second sign */
    /* of all attempts */
    bool ever; /* some line has matched */
    bool mute; /* none did for so long that nobody waits for one any more */
    uint64_t gap_max_ms;
    uint32_t gap_count;
    uint32_t gap_next;
    uint32_t gaps[LOG_GAPS_MAX]; /* ms between one furthest step and the next, the last ones */
    uint32_t pause_next;
    struct log_pause {
        uint64_t after; /* steps */
        uint64_t before;
        uint64_t over_ms;     /* when it was over */
        bool saved;           /* a checkpoint of a step within was seen */
    } pauses[LOG_PAUSES_MAX]; /* the last long gaps */
};

/* Something that an agent is doing in the job's checkpoint folder. */
struct save_errand {
    uint64_t nonce; /* 0 = none is under way */
    uint64_t deadline_ms;
    uint32_t node;
    uint8_t task; /* enum save_task */
    uint32_t attempt;
    uint64_t step;
    uint64_t bytes; /* in all, and done, as last told */
    uint64_t bytes_done;
};

/* What is asked about the job's checkpoint folder: saves.c. */
struct job_saves {
    struct save_errand list;
    struct save_errand work; /* a verification or a removal: one at a time */
    bool listed;             /* since the last attempt was stopped; or it cannot be */
    bool failed;             /* … it could not be */
    bool gone;               /* … or none of those that are known was there */
    bool gone_told;          /* … and a person was asked about it */
    uint32_t tries;          /* listings without a result, in a row */
    uint64_t due_ms;         /* the next listing while it runs */
    uint64_t lowest;         /* least step of a complete one in the listing under way */
    char place[PATH_SIZE];   /* the directory of one that it told of, or where it looked; or "" */
    char text[TEXT_SIZE];    /* why the last listing failed; "" = it did not */
};

/* How long a phase of the ranks took where it ended well: what its limit is learned from. */
struct phase_history {
    uint32_t count; /* times, each counted once for all slots */
    uint64_t longest_ms;
    uint64_t which; /* the last time counted */
};

struct job {
    struct record_image_job d;
    uint32_t slot_base; /* its slots are slots[slot_base .. slot_base + slot_count) */
    uint32_t slot_count;
    uint32_t slots_done;
    /* soft */
    uint64_t step;       /* least completed step over all slots, 0 = none yet */
    uint32_t behind;     /* slots that have not passed it */
    bool counted;        /* behind says so */
    uint64_t step_top;   /* furthest step that any rank completed: what a rollback takes away */
    uint64_t step_at_ms; /* when step_top last moved: whether any rank still makes steps */
    uint32_t step_ms;    /* median step time as the ranks report it */
    uint64_t told_ms;    /* when a rank last told something new of its communicators; 0 = never */
    struct phase_history history[RANK_PHASES]; /* over all attempts, of this process's lifetime */
    uint64_t saved_ms;    /* service time that the newest complete checkpoint covers */
    uint64_t stop_ms;     /* monotonic: when the stop order of the running phase was given */
    uint64_t evidence_ms; /* last new fact of the open incident */
    uint64_t evidence_open_ms;
    uint64_t gone_ms;  /* since when every rank is proven gone; 0 = not yet */
    uint64_t phase_ms; /* monotonic start of the current phase in this process */
    uint64_t retry_ms; /* planning again at this time (wait for a spare, back-off) */
    uint64_t drain_ms; /* a drain waits for a checkpoint until then; 0 = none */
    uint64_t end_ms;   /* first rank ended 0 */
    uint32_t port_tries;
    uint32_t check_failures; /* quick checks that failed in this recovery */
    bool library;            /* some rank of any attempt used the library */
    struct job_saves saves;
    struct log_steps log;
    uint64_t reserve_ms;      /* when the reserve is looked at again */
    uint64_t spares_count_ms; /* … and its spares are counted again */
    bool spares_uncounted;    /* something has happened since they were */
    uint64_t spares_since_ms; /* since when they are fewer, or enough, and it was not said yet */
    bool waiting_spare;
    char wait_text[TEXT_SIZE]; /* what it waits for, and what would unblock it */
    char would[TEXT_SIZE]; /* what automation would do for it now, were it not held; "" = none */
    bool would_still;      /* the look that runs came to the same */
};

/* What a rank's program says beside its progress: soft, whole, as last told. */
struct rank_detail {
    uint64_t told_ms;    /* monotonic, in the core's time; 0 = nothing was told */
    uint64_t changed_ms; /* … since when its communicators stand as they do */
    struct msg_rank_detail d;
};

struct checkpoint {
    struct record_image_checkpoint d;
    uint32_t shards_seen; /* soft, of a writing one */
    uint32_t stall_ms;    /* soft: the longest that a rank reported */
    uint64_t began_ms;    /* service time of BEGIN */
    uint64_t seen;        /* nonce of the last listing that told of it */
    bool stays;           /* its folder could not be removed: not tried again in this process */
};

struct incident {
    struct record_image_incident d;
};

struct recovery {
    struct record_image_recovery d;
};

struct foreign {
    struct record_image_foreign d;
};

/* Everything durable that belongs to no object. */
const struct record_image_core *core_globals(const struct core *core);
const struct core_config *core_config_of(const struct core *core); /* defaults filled in */
bool core_ready(const struct core *core); /* the grace after the start is over */
bool core_held(const struct core *core);  /* automation holds: old store, breaker or pause */
const char *core_held_text(const struct core *core);

uint32_t core_node_count(const struct core *core); /* ids are 1..count; removed ones included */
const struct node *core_node(const struct core *core, uint32_t id); /* NULL when there is none */
uint32_t core_node_find(const struct core *core, const char *name); /* 0 when there is none */
uint32_t core_mark_count(const struct core *core, uint32_t node);
const struct mark *core_mark(const struct core *core, uint32_t node, uint32_t index);
/* Derived: what people see. suffix_star: the agent is not connected. */
const char *core_node_state_word(const struct core *core, const struct node *node, bool *ret_star);
const char *core_node_role_word(const struct core *core, const struct node *node);
bool core_node_usable(const struct core *core, const struct node *node); /* may be given a slot */
/* What comes next of its repair, in a sentence; "": nothing. */
void core_repair_next(const struct core *core, const struct node *node, char text[TEXT_SIZE]);
/* This job does not take the node: it had two faults of a kind within a day. */
bool core_node_barred(const struct core *core, const struct job *job, const struct node *node);

/* Iterate: for (i = 0; (job = core_job_at(core, i)) != NULL; i++); order of ids. The same for the
 * other *_at functions below; their order is the order of creation. */
const struct job *core_job_at(const struct core *core, uint32_t index);
const struct job *core_job(const struct core *core, uint32_t id);
uint32_t core_job_find(const struct core *core, const char *name); /* the newest of that name */
bool core_job_over(const struct job *job);
const struct slot *core_slot(const struct core *core, const struct job *job, uint32_t slot);
/* What the rank's program tells of itself in the present attempt; NULL: nothing. */
const struct rank_detail *core_rank_detail(const struct core *core, const struct job *job,
                                           uint32_t rank);
/* Condition layout-mismatch: ranks whose program computed other coordinates than the layout gives
 * them, and the first of them. Who is to be blamed by stage or replica must not be asked then. */
uint32_t core_job_misplaced(const struct core *core, const struct job *job, uint32_t *ret_rank);
/* As the layout has them. rank < world of the job. */
struct rank_coordinates core_rank_coordinates(const struct job *job, uint32_t rank);
/* How long its ranks may stay in this phase (of a step: without completing one) before they hang,
 * as of now; UINT64_MAX: for ever. rank_phase: enum rank_phase. */
uint64_t core_job_limit_ms(const struct job *job, uint8_t rank_phase);
uint8_t core_job_time_kind(const struct core *core, const struct job *job); /* now running kind */
uint64_t core_service_ms(const struct core *core); /* now, as of the last event */

/* How often a job saves, what that costs, and what the best interval would cost, as of now. */
struct core_interval {
    uint8_t origin;    /* enum choice_origin_word */
    uint64_t each_ms;  /* in force, or seen last where the program decides; 0 = not known */
    bool asks;         /* its program can be asked for saves */
    uint32_t saves;    /* the last complete ones, that the next two are the medians of */
    uint64_t stall_ms; /* training stands */
    uint64_t save_ms;  /* until it is complete */
    uint32_t failures; /* of the job, in span_ms of running */
    uint64_t span_ms;
    uint64_t gap_ms;        /* expected between two failures of the job */
    uint64_t best_ms;       /* 0 = no save was measured yet */
    uint32_t cost_ppm;      /* of all time, stalls and work done again; 0 = not known */
    uint32_t best_cost_ppm; /* … with best_ms */
};
void core_interval(const struct core *core, const struct job *job, struct core_interval *ret);

/* How many spares a job keeps and has, and what an automatic number was concluded from. */
struct core_spares {
    uint8_t origin;   /* enum choice_origin_word: file or auto */
    uint32_t reserve; /* so many ready ones no other job gets */
    uint32_t wanted;  /* SparesLow below this */
    uint32_t ready;   /* that it could take now */
    uint32_t suiting; /* … were none kept for other jobs */
    bool keeps;       /* it has nodes, and is not held */
    bool low;         /* as was said last */
    uint32_t best;    /* what auto would keep, as of now */
    uint32_t losses;  /* nodes that failures took, in span_ms of running */
    uint64_t span_ms;
    uint64_t gap_ms;  /* expected between two failures of one node */
    uint64_t away_ms; /* expected until a node that failed is back */
};
void core_spares(const struct core *core, const struct job *job, struct core_spares *ret);
/* That there are too few, or enough, in a sentence. */
void core_spares_say(bool low, uint32_t ready, uint32_t wanted, char text[TEXT_SIZE]);
/* What a node's strikes weigh by now, in 1/1000 of one: each is halved every 7 days. */
uint32_t core_strikes_milli(const struct core *core, const struct node *node);

const struct checkpoint *core_checkpoint_at(const struct core *core, uint32_t index); /* by age */
const struct checkpoint *core_checkpoint_find(const struct core *core, uint32_t job,
                                              uint32_t attempt, uint64_t step);
/* The one a restore would take now; NULL = from the beginning. */
const struct checkpoint *core_checkpoint_best(const struct core *core, const struct job *job);
/* The newest of that step that counts for most: usable before spoilt; NULL = there is none. */
const struct checkpoint *core_checkpoint_of_step(const struct core *core, const struct job *job,
                                                 uint64_t step);
/* A recovery's plan passed over this one: newer than what it restored, and not usable. */
bool core_recovery_skipped(const struct recovery *recovery, const struct checkpoint *checkpoint);
const struct incident *core_incident_at(const struct core *core, uint32_t index);
const struct incident *core_incident(const struct core *core, uint32_t id);
const struct recovery *core_recovery_at(const struct core *core, uint32_t index);
const struct recovery *core_recovery(const struct core *core, uint32_t id);
const struct record_image_fact *core_fact_at(const struct core *core,
                                             uint32_t index); /* open ones */
const struct record_image_blamed *core_blamed_at(const struct core *core, uint32_t index);
const struct foreign *core_foreign_at(const struct core *core, uint32_t index);

#endif
