/* impl.h: the inside of the core, for the files of controller/core alone.
 *
 * Who does what:
 *   core.c        create, step, deadline, the order in which questions are looked at
 *   fold.c        records -> state; it and fold_*.c alone change anything durable
 *   emit.c        new records, actions and trace lines of one step
 *   index.c       nodes by name and by session
 *   node.c        sessions, node life, marks
 *   repair.c      how a node that left for a fault is mended
 *   validate.c    … and shows that it is fit
 *   link.c        the four clocks, second opinion, breaker for silence
 *   breaker.c     the breaker for the rate of evictions
 *   job.c         job life, pending jobs, ends
 *   hang_look.c   whether a job hangs, the limits of its phases, what is said of whom
 *   log_steps.c   progress of programs that only print their steps
 *   report.c      what agents say runs there
 *   detail.c      what the ranks' programs say of themselves beside that
 *   recovery.c    the sequence of phases
 *   plan.c        blame, budgets, spares, layout, which checkpoint
 *   plan_say.c    … what it passed over, and what it would do were automation not held
 *   checkpoint.c  saves
 *   saves.c       what lies in the folder of saves, as agents see it
 *   save_work.c   … to read one again, to keep one, to remove what is past its time
 *   desired.c     what each agent shall run
 *   peers.c       whom an agent may ask when it is cut off
 *   request.c     operators' requests
 *   adopt.c       … to take over what agents run and the store does not know
 *   rates.c       how often things fail here
 *   interval.c    how often a job saves
 *   spares.c      which spares a job may take, and how many it keeps
 *   account.c     every second has one kind
 *   layout*.c, judge*.c, hang.c   pure functions
 *   view.c        state.h
 *
 * Time inside the core is `t`: the driver's monotonic time less the stalls of the controller
 * itself, so that a controller that did not run has not waited either. */
#ifndef KEEPSTEP_CORE_IMPL_H
#define KEEPSTEP_CORE_IMPL_H

#include "controller/core/core.h"
#include "controller/core/judge_case.h"
#include "controller/core/layout.h"
#include "controller/core/state.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/hostlist.h"
#include "proto/base/prng.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum {
    TRACE_SIZE = 65536,
    LABELS_MAX = 16384,
    PENDING_HELLOS_MAX = 16,
    QUARANTINE_MAX = 64,
    SIGNS_MAX = 256,
    LATE_MS = 250, /* a tick later than this means that the controller did not run */
};
#define SERVICE_AWAY_MAX_MS (7ull * 24 * 3600 * 1000)
#define NEVER               UINT64_MAX

/* What was told of a node and ended nothing; node 0: this place is free. */
struct sign {
    struct fact fact;
    uint64_t t;
};

struct pending_hello {
    uint64_t session; /* 0 = free */
    uint32_t node;
    struct msg_hello hello;
};

/* For whom spares are kept, as the job that was asked for last finds it. */
struct spare_shares {
    uint32_t count;
    uint32_t *ids;      /* of usable nodes, growing */
    uint32_t *kept_for; /* [node id - 1], of those alone: the job; 0 = nobody */
};

/* Nodes by name and by session, without a walk over all of them. */
struct node_index {
    uint32_t *by_name; /* node ids by the hash of their name, the next free place taken; 0 = free */
    uint32_t *by_session; /* who had a session of this number last: looked at again before use */
    uint32_t mask;        /* of both: the number of places less one */
    uint32_t *by_label;   /* numbers of labels, as by_name */
};

struct core {
    struct core_limits limits;
    struct core_config config;
    struct prng prng;
    struct record_image_core g; /* durable */

    /* Arrays keep the order of creation, also over a snapshot: removal moves the rest down. */
    struct node *nodes;             /* [id - 1] */
    struct attempt_report *reports; /* [(id - 1) * ATTEMPTS_PER_NODE_MAX], see node.reports */
    uint32_t node_count;
    struct node_index index;
    struct mark *marks;
    uint32_t mark_count;
    struct job *jobs;
    uint32_t job_count;
    struct slot *slots; /* regions of jobs, see job.slot_base */
    struct checkpoint *checkpoints;
    uint32_t checkpoint_count;
    struct incident *incidents;
    uint32_t incident_count;
    struct record_image_fact *facts;
    uint32_t fact_count;
    struct record_image_blamed *blamed;
    uint32_t blamed_count;
    struct recovery *recoveries;
    uint32_t recovery_count;
    struct hang_scratch *hang;
    struct rank_detail *details; /* [(node id - 1) * RANKS_PER_NODE_MAX + local rank]; soft */
    struct foreign *foreigns;
    uint32_t foreign_count;

    /* this step */
    struct record *records;
    uint32_t record_count;
    uint32_t record_limit;
    struct action *actions;
    uint32_t action_count;
    uint32_t action_limit;
    char *trace;
    uint32_t trace_size;
    uint64_t now_ms;
    uint64_t wall_ms;
    uint32_t pending_records;

    /* time */
    bool started;
    bool stepped;
    uint64_t t;
    uint64_t stall_ms;        /* now_ms - t */
    uint64_t catch_up_ms;     /* until then (t) what was sent during a stall is still being read */
    uint64_t service_base_ms; /* service time = this + now_ms */
    uint64_t due_ms;          /* deadline in t, as of the end of the last step */
    uint64_t start_ms;        /* t of EVENT_START */
    uint64_t new_agent_ms;    /* t of the last new agent */
    uint64_t alone_ms;        /* t when last no agent at all was reachable; 0 = never */
    uint64_t suspect_ms;      /* t of the last new suspect */
    uint32_t rounds;          /* nodes that are being asked about: their probe_ms is not 0 */
    uint32_t round_next;      /* index of the node whose turn is next */
    uint32_t *heard;          /* of this look: nodes that may be asked about others */
    uint32_t heard_count;
    struct {
        uint32_t job; /* 0: it is not known */
        uint64_t from_ms;
    } nobody; /* of this look: no node of the job has sent a beat after that and may testify */
    uint64_t quiet_ms; /* since when silence has been under half; breaker */
    bool store_failing;
    uint32_t quarantine_count;
    uint32_t quarantine[QUARANTINE_MAX]; /* jobs with rows in the journal that cannot be read */
    bool old_store;                      /* agents know a higher term or attempt */
    uint64_t term_seen;                  /* the highest that an agent reported */
    char held_text[TEXT_SIZE];
    uint64_t nonce;
    uint8_t *repair_bits;     /* scratch of repair.c, by node id - 1 */
    uint32_t *repair_cause;   /* the same: index + 1 of the mark that is to be mended */
    uint32_t repairs_running; /* nodes whose repair is `ordered` */
    uint64_t repair_due_ms;
    bool repair_stirred; /* something has changed that repairs rest on */
    bool look;           /* this step changed something that decisions rest on */
    bool unseen;         /* steps before it did, and it was not looked at yet (event.more) */

    /* planning */
    char (*labels)[NAME_SIZE]; /* interned: index + 1 is the number */
    uint32_t label_count;
    struct layout_scratch *scratch;
    struct layout_node *plan_nodes;
    struct layout_node *plan_holders;
    struct spare_shares *shares; /* spares.c; no state */
    uint32_t *plan_ids;
    uint32_t *plan_lost;
    struct layout_swap *plan_swaps;
    uint32_t *name_order;
    uint32_t names_ordered; /* so many nodes are in it */
    struct pending_hello hellos[PENDING_HELLOS_MAX];
    struct judge_verdict verdict;
    struct judge_case judge_case; /* what it was given */
    struct sign signs[SIGNS_MAX]; /* signs.c; no state */
};

/* ---- signs.c ---- */
/* A fact that ended nothing. */
void signs_keep(struct core *core, const struct fact *fact);
/* One of a node of the job that came so shortly before a failure began, or since, that it may have
 * to do with it; began_ms is of core->t. NULL: not that index, which is below SIGNS_MAX. */
const struct fact *signs_recent(const struct core *core, const struct job *job, uint32_t index,
                                uint64_t began_ms);
/* One of before that, for the repeat test. */
const struct fact *signs_earlier(const struct core *core, uint32_t index, uint64_t *ret_age_ms);

/* ---- emit.c ---- */
/* Starts a record of this kind with the present times; fill u and the event, then core_emit it. */
struct record *record_begin(struct core *core, uint16_t kind);
void record_subject(struct record *record, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void record_says(struct record *record, const char *type, uint8_t severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void core_emit(struct core *core, struct record *record); /* folds it; it is the last one begun */
/* Automation is held: says, durably, what it would do now ("take it for lost: ..."). */
void core_would(struct core *core, uint32_t job, uint32_t node, const char *what);
/* The same of a job, once until it is something else; shown with the job as long as it is held. */
void job_would(struct core *core, struct job *job, uint32_t node, const char *what);
struct action *action_begin(struct core *core, uint8_t kind);
struct action *action_send(struct core *core, struct node *node, uint8_t message);
void core_trace(struct core *core, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- fold.c ---- */
bool fold_has_room(const struct core *core, uint32_t slots); /* for a job of so many */
int fold_record(struct core *core, const struct record *record, struct err *err);
struct node *node_at(struct core *core, uint32_t id); /* NULL when there is none */
struct job *job_at(struct core *core, uint32_t id);
struct slot *slot_at(struct core *core, const struct job *job, uint32_t slot);
struct incident *incident_at(struct core *core, uint32_t id);
struct recovery *recovery_at(struct core *core, uint32_t id);
struct checkpoint *checkpoint_at(struct core *core, uint32_t job, uint32_t attempt, uint64_t step);

/* ---- index.c ---- */
void index_create(struct core *core); /* room for limits.agents */
void index_free(struct core *core);
void index_name(struct core *core, const struct node *node); /* a new one; names stay for ever */
void index_session(struct core *core, const struct node *node);
struct node *node_by_session(struct core *core, uint64_t session); /* NULL: nobody's */
uint32_t index_label(struct core *core, const char *label);        /* its number; 0 for "" */

/* ---- node.c ---- */
bool node_move_allowed(uint8_t from, uint8_t to);
void node_move(struct core *core, struct node *node, uint8_t to, const char *cause);
void node_settle(struct core *core, struct node *node); /* life follows marks, slot and checks */
void node_hello(struct core *core, uint64_t session, const struct msg_hello *hello);
void node_pinged(struct core *core, uint64_t session, bool alive);
void node_closed(struct core *core, uint64_t session);
bool node_leaves(const struct core *core, const struct node *node, uint8_t *ret_when);
bool node_marked(const struct core *core, const struct node *node);
const struct mark *mark_find(const struct core *core, uint32_t node, uint8_t owner,
                             const char *code);
struct mark_order {
    uint8_t owner;
    uint8_t level;
    uint8_t when;
    const char *code;
    const char *actor;
    const char *text;
    uint32_t incident;
    uint32_t job;
    uint32_t attempt;
    uint64_t fact_sequence; /* 0: no fact of its agent's says so */
    uint8_t lane;           /* what mends it; none: nothing that a program could do */
    uint8_t fault;          /* whose it is */
};
/* One more than MARKS_OF_OTHERS on a node is said in an event and not set. */
void mark_set(struct core *core, struct node *node, const struct mark_order *order);
/* A person vouches for a node that cannot prove itself empty (recovery/unproven). Its agent may now
 * take for gone what it does not find; the mark goes when it has looked and found nothing. */
void mark_waive(struct core *core, struct node *node, const char *actor, const char *reason);
bool mark_fits(const struct core *core, const struct node *node, uint8_t owner, const char *code);
void mark_clear(struct core *core, struct node *node, uint8_t owner, const char *code,
                const char *actor, const char *text);
void node_remove(struct core *core, struct node *node, const struct request *request);
void node_lose(struct core *core, struct node *node, uint8_t how);
/* Ranks of this attempt (job 0: of whatever) may still run there and nobody can say otherwise: the
 * node gets the mark recovery/unproven and, where a site has a hook, is cut off by it. */
void node_fence(struct core *core, struct node *node, uint32_t job, uint32_t attempt,
                const char *text);
bool node_fence_waits(const struct core *core, const struct node *node); /* for the hook's answer */
void node_fenced(struct core *core, uint32_t node, bool ok);
void node_fence_again(struct core *core); /* at a start: hooks that have not answered */
bool node_said_goodbye(const struct core *core, const struct node *node); /* for reboot, for good */
void node_accept_inventory(struct core *core, struct node *node);         /* as it is now */
void node_goodbye(struct core *core, struct node *node, const struct msg_goodbye *goodbye);
bool node_wants_ack(const struct core *core, const struct node *node); /* it has heard little */
void node_ack(struct core *core, struct node *node);
/* A probe of its own found what is fatal for the node, and no verdict on a job will tell. */
struct node_fault {
    const char *text;
    uint64_t sequence;
    uint8_t advice; /* enum signal_advice */
};
void node_is_broken(struct core *core, struct node *node, const struct node_fault *fault);
/* Of the last fact that its agent need not say again; 0: it has said none. */
uint64_t node_fact_sequence(const struct node *node);

/* ---- repair.c ---- */
bool repair_move_allowed(uint8_t from, uint8_t to);
uint8_t repair_validation(uint8_t lane); /* what a node must pass after a fault of this lane */
void repair_look(struct core *core);
void repair_due(const struct core *core, uint64_t *due_ms);
/* The hook of this order has ended; said: its last line. Of another order: nothing follows. */
void repair_done(struct core *core, uint32_t node, uint32_t order, bool ok, const char *said);
/* The node is asked to check itself, and has until then: so has its repair, if that waits for it. */
void repair_asked(struct node *node, uint64_t until_ms);
/* The checks of a node whose repair waits for them have ended. */
void repair_validated(struct core *core, struct node *node, bool ok, const char *said);
/* An operator gives the node back; true: that ends its repair. Where a hook runs it goes on, and
 * where a mark is left that automation mends, too, unless it is a person's turn or one vouches for
 * it (skip_validation). */
bool repair_give_back(struct core *core, struct node *node, const struct request *request);
void repair_again(struct core *core); /* at a start: all repairs are looked at when it is ready */

/* ---- validate.c ---- */
/* From now on it must pass (at least) this; asked: an operator wants to know, whatever its marks. */
void validate_require(struct core *core, struct node *node, uint8_t level, bool asked,
                      const char *why);
/* No job is barred from it any more. */
void validate_forgive(struct core *core, struct node *node, const char *actor, const char *reason);
void validate_waive(struct core *core, struct node *node, const char *actor, const char *reason);
void validate_look(struct core *core,
                   struct node *node); /* asks it, if it is time; may settle it */
void validate_said(struct core *core, struct node *node, const struct msg_validated *said);

/* ---- link.c ---- */
void link_beat(struct core *core, struct node *node);
/* A beat that its agent sent at sent_ms of its own clock has arrived now. */
void link_clock(struct core *core, struct node *node, uint64_t sent_ms);
/* Its peers are asked from the next look on, which the caller owes. */
void link_suspect(struct core *core, struct node *node, const char *why);
void link_decided(struct core *core, struct node *node); /* it is lost: nobody asks any more */
void link_peer_said(struct core *core, const struct node *prober, const struct msg_peer_said *said);
void link_look(struct core *core);
void link_breaker_close(struct core *core); /* a person has looked */
void link_due(const struct core *core, uint64_t *due_ms);
bool link_undecided(const struct core *core, const struct job *job); /* a holder is suspect */
/* Every node that may be there has been heard since this controller started, or the grace after
 * the start is over: who is not heard now is not only late. */
bool link_settled(const struct core *core);

/* ---- breaker.c ---- */
/* Before the blamed of this job's failures are evicted: pauses automation when that would be too
 * many evictions by what is found on nodes, in an hour or by one rule in a day. Then core_held(). */
void breaker_evicts(struct core *core, const struct job *job);
/* A node has just got the mark health/CODE without an incident: the same. */
void breaker_marked(struct core *core, const char *code);

/* ---- report.c ---- */
void report_attempts(struct core *core, struct node *node, const struct attempt_report *reports,
                     uint32_t count);
void report_ends(struct core *core, struct node *node, const struct msg_rank_ends *ends);
void report_forget(struct job *job, struct slot *slot); /* soft state of a new attempt */
bool report_empty(const struct node *node);             /* nothing of any attempt runs there */
/* It runs ranks of the very attempt that this job runs, and holds no slot of it: the store is wrong
 * about one of them, and nobody knows of which. */
bool report_misplaced(const struct node *node, const struct job *job);
/* No rank of an attempt <= `attempt` of this job can run there: proven by the node's own report. */
bool report_gone(const struct node *node, uint32_t job, uint32_t attempt);
/* The node's report has one of these attempts and does not call it empty. */
bool report_lives(const struct node *node, uint32_t job, uint32_t attempt);

/* ---- log_steps.c ---- */
void log_steps_forget(struct job *job); /* a new attempt */
/* True where the report's steps are those that ranks print: the furthest one takes the place of
 * both numbers. */
bool log_steps_of(const struct job *job, const struct attempt_report *report, uint64_t *step,
                  uint64_t *step_max);
uint32_t log_steps_time(const struct attempt_report *report); /* of a step, as lines tell */
/* A slot's step is another one than before; before: 0 when none was printed there. */
void log_steps_moved(struct core *core, struct job *job, const struct attempt_report *report,
                     uint64_t step, uint64_t before);
void log_steps_read(struct core *core, struct job *job, struct slot *slot,
                    const struct attempt_report *report);
void log_steps_used(struct core *core, struct slot *slot, const struct attempt_report *report);
/* The job's progress is what its ranks print: its step is the furthest of them. */
bool log_steps_lead(const struct core *core, const struct job *job);
uint64_t log_steps_gap_ms(const struct job *job); /* the longest healthy one so far */
/* Of a job that they lead: when it counts as hung, NEVER while that cannot be told. */
uint64_t log_steps_hang_ms(const struct core *core, const struct job *job);
/* Says so in the fact; for how long it has stood still. */
uint64_t log_steps_hang(const struct core *core, const struct job *job, struct fact *fact);
/* Says once that lines stay away without a second sign that it hangs. */
void log_steps_look(struct core *core, struct job *job);
void log_steps_due(const struct core *core, const struct job *job, uint64_t *due_ms);
/* No first step was printed in time: true when that is no reason to start it again. */
bool log_steps_give_up(struct core *core, struct job *job);

/* ---- detail.c ---- */
void detail_message(struct core *core, const struct node *node,
                    const struct msg_rank_detail *message);

/* ---- job.c ---- */
bool job_move_allowed(uint8_t from, uint8_t to);
void job_move(struct core *core, struct job *job, uint8_t to, const char *reason);
void job_look(struct core *core, struct job *job);
void job_stop_for_good(struct core *core, struct job *job, const char *reason);
void job_end_attempt(struct core *core, struct job *job); /* its stop is ordered from now on */
void job_fence_rest(struct core *core, struct job *job, const char *text);
/* Now, and it goes on. quietly: nobody is told, since the save itself will be. */
void job_ask_save(struct core *core, struct job *job, bool quietly);
bool job_uses_library(const struct core *core, const struct job *job); /* rank 0 can be asked */
void job_ask_stop(struct core *core, struct job *job); /* a save, and then it ends its attempt */
/* Whether its program can be asked for a save before a planned stop; text says why not, and
 * otherwise what is waited for, and how long. */
bool job_can_save(const struct core *core, const struct job *job, char text[TEXT_SIZE]);
uint64_t job_steps_at_risk(const struct core *core,
                           const struct job *job); /* since the last save */
void job_ask_hold(struct core *core, struct job *job, bool on, const char *actor);
bool job_at_work(const struct job *job); /* starts, runs or recovers; NULL does not */
bool job_runs(const struct job *job);    /* ranks of the current attempt are wanted to run */
void job_due(const struct core *core, const struct job *job, uint64_t *due_ms);
bool job_ends_now(const struct core *core, const struct job *job); /* some ranks ended well */

/* ---- hang_look.c ---- */
/* Looks whether a running job hangs, and then opens its incident; true: it does. */
bool hang_look(struct core *core, struct job *job);
uint64_t hang_due_ms(const struct core *core, const struct job *job); /* of the next such look */
/* Names who made the job stand still, each slot with a fact; false: nobody could be named. */
bool hang_name(struct core *core, struct job *job, uint64_t since_service_ms);
/* A slot has come through this phase in good health within `ms`. which: tells one time from the
 * next over all slots, and only grows (the step; of the initialisation: the attempt). */
void hang_phase_seen(struct job *job, uint8_t rank_phase, uint64_t ms, uint64_t which);

/* ---- recovery.c ---- */
void recovery_fact(struct core *core, struct job *job, const struct fact *fact,
                   uint64_t since_service_ms);
void recovery_open(struct core *core, struct job *job, uint8_t cause, uint32_t incident,
                   uint64_t since_service_ms);
void recovery_close(struct core *core, struct job *job, uint8_t outcome);
void recovery_phase(struct core *core, struct job *job, uint8_t phase);
void recovery_look(struct core *core, struct job *job);
void recovery_due(const struct core *core, const struct job *job, uint64_t *due_ms);
void recovery_hold(struct core *core, struct job *job, const char *reason);
void recovery_check_result(struct core *core, struct node *node,
                           const struct msg_check_result *result);
bool recovery_all_gone(const struct core *core, const struct job *job, bool *ret_fenced);

/* ---- plan.c, plan_say.c ---- */
enum plan_result { PLAN_MADE, PLAN_WAITS, PLAN_OVER };
/* Blame, budgets, evictions, layout, checkpoint: everything that phase `plan` decides. */
enum plan_result plan_make(struct core *core, struct job *job, struct recovery *recovery);
void plan_verdict(struct core *core, struct job *job);
/* What plan_make would do now, as a sentence without a subject; changes nothing. */
void plan_foresee(struct core *core, struct job *job, char text[TEXT_SIZE]);
struct layout_shape plan_shape(const struct job *job);
/* A held job runs nothing: its nodes that are to leave, or are lost, need not wait for it. */
void plan_release_leaving(struct core *core, struct job *job);
void plan_choose_port(struct core *core, struct job *job);
void plan_leave_slot(struct core *core, const struct job *job, uint32_t slot);
void plan_take_slot(struct core *core, const struct job *job, uint32_t slot, uint32_t node,
                    uint32_t from, const char *why); /* from: who had it, 0 = nobody */

/* ---- checkpoint.c ---- */
void checkpoint_message(struct core *core, struct node *node, const struct msg_checkpoint *message);
void checkpoint_abandon(struct core *core, struct job *job); /* writing ones of a stopped attempt */
/* The best one besides `skip`; NULL: from the beginning. */
const struct checkpoint *checkpoint_best_but(const struct core *core, const struct job *job,
                                             const struct checkpoint *skip);
void checkpoint_mark(struct core *core, const struct checkpoint *checkpoint, uint8_t state,
                     const char *note);
/* A complete one that nobody had told of: u is the whole of it, began_ms when its save began, on
 * service time. Settles what it covers, if it is of the attempt that runs. */
void checkpoint_found(struct core *core, struct job *job, struct record_checkpoint_moved *u,
                      uint64_t began_ms);
void checkpoint_emit(struct core *core, const struct job *job,
                     const struct record_checkpoint_moved *u);

/* ---- saves.c ---- */
enum save_listing { SAVES_LISTED, SAVES_WAIT, SAVES_UNKNOWN };
/* Before a checkpoint is chosen: begins a listing where one is due. WAIT: it is under way. UNKNOWN:
 * it cannot be had, and without it nothing may be chosen; reason says why. */
enum save_listing saves_list(struct core *core, struct job *job, char reason[TEXT_SIZE]);
/* A person is asked about the UNKNOWN: where it is that all are gone, the next release is an answer. */
void saves_asked(struct job *job);
/* An attempt was made: what was seen before it ran is of no more use. */
void saves_stale(struct core *core, struct job *job);
void saves_look(struct core *core, struct job *job);
void saves_due(const struct core *core, const struct job *job, uint64_t *due_ms);
void saves_message(struct core *core, const struct node *node, const struct msg_save_said *said);
/* The index-th node that may look into the job's folder now: holders of its slots, then others that
 * it might be given; `spare` first the others. NULL: there is none at all. */
struct node *saves_node(struct core *core, const struct job *job, uint32_t index, bool spare);
/* The order for an errand, which it begins; the caller may fill in more. */
struct msg_save_ask *saves_send(struct core *core, const struct job *job, struct node *node,
                                struct save_errand *errand, uint8_t task, uint32_t timeout_ms);
bool saves_are_found(const struct job *job); /* by looking, not through the library */

/* ---- save_work.c ---- */
void save_work_said(struct core *core, struct job *job, const struct msg_save_said *said);
void save_work_look(struct core *core, struct job *job);
void save_work_due(const struct job *job, uint64_t *due_ms);
/* 0 or -errno, and the sentence for the person. */
int save_work_pin(struct core *core, struct job *job, const struct request *request,
                  bool *ret_changed, char text[TEXT_SIZE]);
int save_work_verify(struct core *core, struct job *job, const struct request *request,
                     char text[TEXT_SIZE]);

/* ---- desired.c ---- */
void desired_send(struct core *core, struct node *node, const struct job *job);
void desired_send_job(struct core *core, const struct job *job); /* to every node it concerns */
void desired_send_node(struct core *core, struct node *node);    /* of every job */

/* peers.c: tells the agent of a few others, unless its session has carried just this list. */
void peers_tell(struct core *core, struct node *node);

/* ---- request.c ---- */
void request_handle(struct core *core, const struct request *request);
/* The answer of this request, and its line in the audit log. */
void request_reply(struct core *core, const struct request *request, int32_t result, uint32_t job,
                   bool changed, const char *format, ...) __attribute__((format(printf, 6, 7)));
void request_audit(struct core *core, const struct request *request, const char *verb,
                   const char *subject, const char *result);

/* ---- request_nodes.c ---- */
void request_drain(struct core *core, const struct request *request);
void request_cordon(struct core *core, const struct request *request);
/* only_cordon: takes that one mark away and no other. */
void request_undrain(struct core *core, const struct request *request, bool only_cordon);
void request_remove(struct core *core, const struct request *request);
void request_validate(struct core *core, const struct request *request);

/* ---- adopt.c ---- */
void adopt_request(struct core *core, const struct request *request);
bool adopt_is_due(const struct core *core, const struct job *job); /* agents know a newer attempt */
void adopt_stop_foreign(struct core *core, const struct request *request);

/* ---- rates.c ---- */
struct rates {
    uint64_t span_ms;     /* so long the job ran, of the time that is looked at */
    uint32_t failures;    /* of the job in it */
    uint32_t losses;      /* nodes that they took from it */
    uint64_t gap_ms;      /* expected between two failures of the job */
    uint64_t node_gap_ms; /* … of one node */
};
void rates_of(const struct core *core, const struct job *job, struct rates *ret_rates);
uint64_t
rates_away_mean_ms(const struct core *core); /* expected until a node that failed is back */
uint64_t rates_away_ms(const struct core *core, const struct node *node); /* since it was struck */
uint32_t rates_strikes_milli(const struct core *core, const struct node *node); /* by now */

/* ---- interval.c ---- */
struct interval_facts {
    uint32_t saves; /* measured; 0: none, and the times below are 0 */
    bool untold;    /* there were some that tell nothing of what they took */
    uint64_t stall_ms;
    uint64_t save_ms;
    uint64_t best_ms;
    struct rates rates;
};
void interval_facts(const struct core *core, const struct job *job, struct interval_facts *ret);
uint64_t interval_ms(const struct job *job);                  /* in force; 0 = nobody asks */
void interval_anew(struct core *core, const struct job *job); /* what it rests on has changed */
void interval_look(struct core *core, struct job *job);       /* of a running job */
void interval_due(const struct core *core, const struct job *job, uint64_t *due_ms);

/* ---- spares.c ---- */
uint32_t spares_suiting(const struct core *core, const struct job *job); /* whoever they are for */
uint32_t spares_barred(const struct core *core, const struct job *job);  /* usable, but not by it */
/* Says for each node for whom it is kept, as this job would find it; spares_may_take() goes by what
 * was said last. */
void spares_share(const struct core *core, const struct job *job);
bool spares_may_take(const struct core *core, const struct job *job, const struct node *node);
uint32_t spares_open(const struct core *core, const struct job *job); /* how many it may take */
/* Nodes that suit a job that is being submitted, and how many of them are kept for others. */
uint32_t spares_for_new(const struct core *core, const struct job_spec *spec, uint32_t *ret_kept);
uint32_t spares_reserve(const struct job *job); /* that it is to keep, auto or not */
void spares_look(struct core *core,
                 struct job *job); /* chooses the reserve, says when few are left */
void spares_due(const struct core *core, const struct job *job, uint64_t *due_ms);

/* ---- account.c ---- */
uint8_t account_kind(const struct core *core, const struct job *job);
void account_settle(struct core *core, const struct job *job, uint8_t kind,
                    uint64_t until_service_ms);
/* The job's state or phase is about to change: books what has run up to now. */
void account_turn(struct core *core, const struct job *job);

/* ---- shared smalls ---- */
static inline uint64_t service_now(const struct core *core)
{
    return core->service_base_ms + core->now_ms;
}
static inline void due_min(uint64_t *due_ms, uint64_t candidate_ms)
{
    if (candidate_ms < *due_ms) {
        *due_ms = candidate_ms;
    }
}

#endif
