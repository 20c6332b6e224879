/* world.h: the inside of the simulator, for controller/sim alone.
 *
 *   sim.c       create, run, the one loop       options.c   what a seed means
 *   queue.c     events in virtual time          net.c       connections, delays, cuts, probes
 *   controller.c  the driver of controller/core, its disk, its deaths
 *   agent.c     the driver of agent/core        shim.c      shims and ranks on a host
 *   train.c     the training program            fault.c     what goes wrong
 *   operator.c  people                          judge*.c    safety; live.c liveness
 *   kill.c      the scenario that is killed at every record
 *
 * One struct sim is the world; everything hangs on it. Times are virtual ms since its beginning;
 * each process sees its own monotonic and wall clock, derived from that. */
#ifndef KEEPSTEP_SIM_WORLD_H
#define KEEPSTEP_SIM_WORLD_H

#include "agent/core/agent_core.h"
#include "controller/core/core.h"
#include "controller/core/state.h"
#include "controller/sim/sim.h"
#include "proto/base/check.h"
#include "proto/base/heap.h"
#include "proto/base/prng.h"

enum {
    SIM_SHIMS_MAX = 8, /* per host */
    SIM_HOSTS_PER_NET = 250,
    SIM_TRAINS_MAX = 64,
    SIM_SAVES_MAX = 512,
    SIM_INCIDENTS_MAX = 1024,
    SIM_MAILS_MAX = 4, /* open requests of one rank */
    SIM_LINE_SIZE = 320,
    SIM_USER_TIMEOUT_MS = 6000, /* TCP_USER_TIMEOUT of both ends */
    SIM_PING_MS = 2000,
    SIM_POLL_MS = 1000,             /* between two looks at the mailboxes */
    SIM_PROTOCOL = 1 << 16,         /* of the agents in every fourth rack: 1.0 … */
    SIM_PROTOCOL_NEW = 1 << 16 | 1, /* … and of the others */
};

/* ---- events ------------------------------------------------------------------------------ */

enum sim_event_kind {
    SIM_EV_CTL_START,
    SIM_EV_CTL_TURN,
    SIM_EV_CTL_TICK,
    SIM_EV_CTL_COMMIT,
    SIM_EV_CTL_PINGED,
    SIM_EV_PUMP,    /* a packet of a connection is due */
    SIM_EV_UNACKED, /* has it been unacknowledged for too long? */
    SIM_EV_DIALED,
    SIM_EV_PROBE,      /* a probe reaches its target */
    SIM_EV_PROBE_OVER, /* its time is up */
    SIM_EV_PROBE_BACK,
    SIM_EV_AGENT_START,
    SIM_EV_AGENT_TURN,
    SIM_EV_AGENT_TICK,
    SIM_EV_AGENT_COMMIT,
    SIM_EV_AGENT_POLL,
    SIM_EV_HOST_UP,
    SIM_EV_SHIM_UP,
    SIM_EV_RANK_END, /* a rank that was signalled is gone */
    SIM_EV_SHIM_LOOK,
    SIM_EV_SCANNED,
    SIM_EV_CHECKED,
    SIM_EV_VALIDATED,
    SIM_EV_TRAIN,
    SIM_EV_FAULT,
    SIM_EV_OPERATOR,
    SIM_EV_UNDO, /* a fault is over */
    SIM_EV_AIM,  /* at the phase of a recovery that has just begun */
    SIM_EV_FLAP, /* a flapping path goes or comes */
    SIM_EV_HEAL,
    SIM_EV_HOOK, /* a program of the site has ended */
    SIM_EV_END,
};

struct sim_event {
    uint8_t kind;
    uint8_t what;   /* UNDO: enum sim_fault; RANK_END: enum rank_state; else a flag */
    int32_t code;   /* RANK_END */
    uint32_t host;  /* index */
    uint32_t index; /* shim, train … */
    uint32_t rank;
    uint64_t life; /* of the process it is for; of another life: dropped */
    uint64_t id;
};

struct sim_queue {
    struct heap heap;
    struct heap_item *items;
    struct sim_event *events;
    uint32_t *free;
    uint32_t free_count;
    uint32_t capacity;
    uint64_t tie;
};

/* ---- the network ------------------------------------------------------------------------- */

struct sim_packet {
    struct sim_packet *next;
    uint64_t at_ms;
    bool fin;
    struct message message;
};

/* One direction of a connection: a FIFO. */
struct sim_pipe {
    struct sim_packet *head;
    struct sim_packet *tail;
    uint64_t last_ms;    /* nothing sent later arrives before */
    uint64_t unacked_ms; /* since when something sent is not acknowledged; 0 */
    bool fin_sent;
    uint32_t pumps; /* events that will look at its head */
};

struct sim_conn {
    uint64_t id; /* the session id; 0: this place is free */
    uint32_t host;
    uint64_t agent_life;
    uint64_t ctl_life;
    bool agent_open; /* this end has not closed it */
    bool ctl_open;
    bool hello;           /* the controller's driver has seen the first message */
    struct sim_pipe up;   /* agent to controller */
    struct sim_pipe down; /* controller to agent */
};

struct sim_probe {
    uint64_t id; /* 0: free; the token of the question */
    uint32_t asker;
    uint64_t asker_life;
    uint32_t target; /* host index, UINT32_MAX: no such address */
    uint64_t nonce;
    uint8_t answer; /* given when its time is up, unless a reply comes before */
    uint64_t incarnation;
    bool controller_up;
};

/* ---- the controller ---------------------------------------------------------------------- */

struct sim_request {
    struct request request;
    uint32_t nodes[16];
    struct job_spec spec;
    uint8_t verb; /* enum sim_verb, for statistics */
};

enum sim_input_kind {
    SIM_IN_MESSAGE,
    SIM_IN_CLOSED,
    SIM_IN_PINGED,
    SIM_IN_REQUEST,
    SIM_IN_STORE,
    SIM_IN_REPAIRED
};

struct sim_input {
    struct sim_input *next;
    uint8_t kind;
    uint64_t session;
    bool flag; /* PINGED: alive; STORE: failing */
    struct message *message;
    struct sim_request *request;
};

struct sim_held {
    struct action action;
    uint64_t position; /* leaves when so many records are durable */
};

enum sim_cut { SIM_CUT_NONE, SIM_CUT_BEFORE, SIM_CUT_AFTER, SIM_CUT_MID };

struct sim_controller {
    bool running;
    bool restart_due;
    uint64_t life;
    int64_t mono_offset; /* its monotonic clock = now + this */
    int64_t wall_offset;
    uint64_t stalled_ms; /* until then */
    uint64_t failing_ms; /* commits fail until then */
    uint64_t slow_ms;    /* commits are slow until then */
    uint64_t busy_ms;    /* every other one fails until then */
    bool unknown;        /* whether the next one was made is not known at first */
    uint64_t trouble_ms; /* it was not itself at that time */
    struct core *core;
    struct sim_input *first;
    struct sim_input *last;
    bool turn_due;
    bool more;        /* the turn has further inputs */
    uint64_t tick_ms; /* armed for */

    struct record *journal; /* durable first, then what waits */
    uint64_t record_count;
    uint64_t record_capacity;
    uint64_t durable;
    bool committing;
    uint64_t commit_end; /* the running commit ends with this many */
    uint64_t *commits;   /* where each commit ended: a store never holds half of one */
    uint32_t commit_count;
    uint32_t commit_capacity;
    bool told_failing;
    uint8_t cut;      /* enum sim_cut: of the next commit */
    uint64_t kill_at; /* kill.c: at this record, 0 = never; then `cut` says when */

    struct sim_held *held;
    uint32_t held_count;
    uint32_t held_capacity;

    uint32_t unjudged;  /* steps with records since the judges of the whole state last looked … */
    uint64_t judged_ms; /* … and when they did */

    /* digest of the live core when so many records existed; for the replay judge */
    uint64_t digest_count;
    uint64_t digest;
};

/* ---- hosts ------------------------------------------------------------------------------- */

struct sim_mail {
    bool open;
    bool given; /* to this life of the agent */
    uint64_t id;
    uint64_t asked_ms;
    struct msg_checkpoint checkpoint;
};

struct sim_rank {
    bool alive;    /* the process itself; what follows is what its shim has recorded */
    uint8_t state; /* enum rank_state */
    bool after_stop;
    int32_t code;
    uint64_t end_sequence;
    uint64_t end_ms;
    bool hung;
    /* its mailbox */
    uint8_t phase;
    uint64_t step;
    uint64_t changed_ms;
    bool unread; /* changed since the agent looked */
    uint32_t save_request;
    bool stop_request;
    uint64_t mail_next;
    struct sim_mail *mails; /* SIM_MAILS_MAX of them, of the host's; NULL: it never asked */
};

struct sim_shim {
    bool used;   /* its folder exists */
    bool barred; /* it will never start: swept before it could */
    bool wanted; /* a sweep waits for it to be up */
    bool up;     /* its process lives */
    bool started;
    bool empty; /* the record says so */
    bool told;  /* TERM or KILL reached it: ends after this are after_stop */
    bool stubborn;
    bool unkillable;
    bool attached;    /* the present agent has seen it */
    uint64_t by_life; /* the agent that started it */
    bool changed;     /* a view is on its way to the agent */
    uint32_t job;
    uint32_t attempt;
    uint32_t first_rank;
    uint32_t rank_count;
    uint32_t train;
    uint64_t end_sequence;
    char cluster_id[CLUSTER_ID_SIZE];
    char job_name[NAME_SIZE];
    struct sim_rank ranks[RANKS_PER_NODE_MAX];
};

struct sim_agent_input {
    struct sim_agent_input *next;
    struct agent_event event;
    struct message *message; /* owned, like those below */
    struct agent_mail *mail;
    struct fact *fact;
    uint32_t shim; /* SHIM, MAILBOX: the view is made when it is read */
    uint32_t rank;
    uint64_t conn; /* LINK_UP, LINK_DOWN, MESSAGE: of this connection only */
    char text[TEXT_SIZE];
};

struct sim_host {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    char boot_id[BOOT_ID_SIZE];
    uint32_t rack;
    uint32_t leaf;
    uint32_t feed;
    bool up;
    bool broken; /* does not come back before the healing */
    bool frozen; /* its processes stand still */
    bool cut_up; /* node to controller */
    bool cut_down;
    uint32_t
        island; /* hosts of different islands do not reach each other; the controller is in 0 */
    uint64_t slow_ms; /* more on the way to the controller */
    bool no_launch;
    bool bad_check;
    bool port_taken;
    bool alarm; /* its own checks fail */
    bool old_agent;
    uint64_t flap_ms;      /* its path flaps until then */
    uint64_t straggle_pct; /* a step takes so much more of its time */
    uint64_t trouble_ms;   /* something was wrong with it, or with its path, at that time */
    uint64_t boots;
    uint64_t boot_ms;
    int64_t wall_offset;

    bool agent_up;
    bool agent_stopped;
    uint64_t agent_life;
    uint64_t incarnation;
    struct agent_core *core;
    struct sim_agent_input *first;
    struct sim_agent_input *last;
    bool turn_due;
    uint64_t tick_ms;
    uint64_t conn; /* its end of a connection; 0 */
    uint64_t dial; /* number of the dial that waits; 0 */
    struct agent_record *journal;
    uint32_t record_count; /* durable */
    uint32_t record_capacity;
    bool busy; /* a commit runs; events wait */
    struct agent_record *pending;
    uint32_t pending_count;
    uint32_t pending_capacity;
    struct agent_action *waiting; /* of the step whose commit runs */
    uint32_t waiting_count;
    uint32_t waiting_capacity;
    uint8_t cut;      /* enum sim_cut: of the next commit */
    uint32_t kill_at; /* kill.c */
    struct sim_hook {
        uint32_t node; /* as the core that started it numbers it */
        uint32_t order;
        uint8_t hook; /* enum repair_hook_word */
        bool works;
        uint64_t end_ms;
        uint64_t asker; /* life of the controller that hears of its end */
    } hook;             /* the last one */

    struct sim_shim shims[SIM_SHIMS_MAX];
};

/* ---- training ---------------------------------------------------------------------------- */

enum sim_train_state {
    SIM_TRAIN_FREE,
    SIM_TRAIN_INIT,
    SIM_TRAIN_RESTORE,
    SIM_TRAIN_STEP,
    SIM_TRAIN_SAVE,
    SIM_TRAIN_DONE
};

struct sim_train {
    uint8_t state; /* enum sim_train_state */
    uint32_t job;
    uint32_t attempt;
    uint32_t world;
    uint32_t ranks_per_node;
    uint32_t slots;
    const struct sim_job_options *options;
    uint32_t hosts[SIM_HOSTS_MAX]; /* of each slot, UINT32_MAX: not there yet */
    uint64_t restore_step;
    uint32_t restore_attempt;
    uint64_t step;
    uint64_t next_ms;   /* the present phase or step ends then, if all are there */
    uint64_t broken_ms; /* since when a rank is missing; 0 */
    bool look_due;      /* somebody came or went: it is looked at when all of this moment is done */
    uint32_t save_seen; /* the request that was carried out last */
    bool stopping;      /* this save is for a planned stop */
    uint32_t save;      /* index + 1 of the save that is not committed yet */
    uint32_t answered;  /* shards whose answer came */
    bool commit_asked;
    bool wrong;          /* it computes nonsense, and its saves hold it */
    uint64_t wrong_step; /* it is noticed at that step, by the rank below */
    uint32_t wrong_host;
};

/* A job that fails at one step, whatever it runs on. */
struct sim_poison {
    uint64_t step; /* 0: it does not */
    bool host;     /* it takes its host down, and not only a rank */
};

/* What lies on the shared storage. */
struct sim_save {
    uint32_t job;
    uint32_t attempt;
    uint64_t step;
    uint32_t shards; /* durable ones */
    uint32_t shards_wanted;
    bool told;   /* rank 0 was told that it is committed */
    bool intact; /* false: it cannot be loaded */
};

/* ---- what the judges remember ------------------------------------------------------------ */

struct sim_shadow_mark {
    uint32_t node;
    uint8_t owner;
    char code[NAME_SIZE];
};

struct sim_shadow_node {
    uint8_t life;
    bool known;
    bool lost;
    bool removed;
    uint8_t repair;    /* enum repair_state_word */
    uint8_t must_pass; /* enum validation_word */
    uint32_t job;      /* whose slot it holds; 0 none */
    uint32_t since_attempt;
    uint32_t host;
};

struct sim_shadow_incident {
    bool struck; /* somebody was evicted for it */
    char rule[NAME_SIZE];
    uint64_t opened_service_ms;
    uint64_t struck_service_ms;
};

struct sim_shadow_save {
    uint32_t job;
    uint32_t attempt;
    uint64_t step;
    uint8_t state;
};

struct sim_shadow_job {
    bool used;
    bool attempted;
    bool launched; /* the present attempt */
    bool progress; /* a newer complete checkpoint since the budgets were used */
    uint32_t job;
    uint8_t state;
    uint32_t attempt;        /* newest made */
    uint32_t launched_below; /* attempts under this one were, or may have been, launched */
    uint32_t over_below;     /* attempts under this one may be ended */
    uint64_t submitted_ms;
    uint64_t settled_ms;
    uint64_t time_ms;
    uint32_t used_user;
    uint32_t used_unknown;
    uint32_t recovery; /* the open one; 0: none */
    uint8_t phase;
    uint32_t merged;         /* failures that it took in */
    uint64_t recovering_ms;  /* virtual time since when it is at work on a start or a recovery */
    uint32_t poison_strikes; /* since it was held or made progress */
    uint32_t reserve;        /* spares that it keeps */
    bool barred;             /* there was a node that it does not take again */
    bool placed;             /* it has once been given nodes */
    uint32_t slot_count;
    uint32_t holders[SIM_HOSTS_MAX]; /* node of each slot, 0 none */
};

struct sim_shadow {
    uint64_t folded;                                 /* durable records that were looked at */
    struct sim_shadow_node nodes[SIM_HOSTS_MAX + 8]; /* by node id */
    uint32_t node_of_host[SIM_HOSTS_MAX];            /* 0: not joined yet */
    struct sim_shadow_job jobs[SIM_JOBS_MAX + 4];
    struct sim_shadow_mark marks[SIM_HOSTS_MAX * 4];
    uint32_t mark_count;
    struct sim_shadow_save saves[SIM_SAVES_MAX];
    uint32_t save_count;
    bool silence; /* the breaker for silence is open */
    bool paused;  /* automation is, or only observes */
    bool observes;
    uint64_t resumed_service_ms;
    struct sim_shadow_incident incidents[SIM_INCIDENTS_MAX]; /* by id, the newest of each place */
};

/* How often the processes of each rank of an attempt were started, for the judge and for kill.c. */
struct sim_starts {
    uint32_t job;
    uint32_t attempt;
    uint32_t rank_count;
    uint32_t total;
    uint8_t *counts; /* [rank], owned */
};

/* ---- the world --------------------------------------------------------------------------- */

struct sim {
    struct sim_options options;
    struct prng prng;
    uint64_t now_ms;
    bool over;
    bool healed;
    bool scripted; /* kill.c drives it */
    enum sim_result result;
    enum sim_judge judge;
    char text[512];
    struct sim_stats stats;
    struct sim_queue queue;
    struct sim_controller ctl;
    struct sim_host *hosts;
    uint32_t host_count;
    struct sim_conn *conns;
    uint32_t conn_count;
    uint32_t *conn_free; /* places that are free */
    uint32_t conn_free_count;
    uint64_t conn_next;
    struct sim_probe probes[256];
    uint64_t probe_next;
    struct agent_output *agent_output;
    struct agent_limits agent_limits;
    struct core_limits core_limits;
    struct sim_train trains[SIM_TRAINS_MAX];
    struct sim_save saves[SIM_SAVES_MAX];
    uint32_t save_count;
    struct sim_shadow shadow;
    struct sim_starts *starts;
    uint32_t start_count;
    uint32_t start_capacity;
    uint64_t storage_ms; /* the shared storage does not answer until then */
    struct sim_poison poison[SIM_JOBS_MAX];
    uint64_t healed_at_ms;
    uint64_t job_next; /* names of submitted jobs */
    uint64_t request_next;
    bool mutated; /* the mutation has struck */
    char lines[SIM_TRACE_LINES][SIM_LINE_SIZE];
    uint64_t line_count;
    void (*script)(struct sim *sim); /* kill.c: looks at the world after each event */
    struct sim_script *script_state;
};

/* sim.c */
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first objection ends the run. */
void sim_object(struct sim *sim, enum sim_judge judge, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool sim_mutate(struct sim *sim, enum sim_mutation mutation); /* true once, when it is to strike */
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);
bool sim_chance(struct sim *sim, uint32_t ppm);
void sim_step_world(struct sim *sim, const struct sim_event *event);

/* queue.c */
void sim_queue_init(struct sim_queue *queue, uint32_t hosts);
void sim_queue_done(struct sim_queue *queue);
void sim_at(struct sim *sim, uint64_t at_ms, struct sim_event event);
bool sim_next(struct sim *sim, struct sim_event *ret_event); /* moves the clock */

/* net.c */
bool net_path_open(const struct sim *sim, uint32_t from, uint32_t to); /* NET_CONTROLLER: it */
#define NET_CONTROLLER UINT32_MAX
struct sim_conn *net_conn(struct sim *sim, uint64_t id); /* NULL when there is none */
void net_dial(struct sim *sim, uint32_t host);
void net_hello_of_the_dead(struct sim *sim, uint32_t host, const struct message *hello);
void net_dialed(struct sim *sim, const struct sim_event *event);
void net_send_up(struct sim *sim, uint64_t conn, const struct message *message);
void net_send_down(struct sim *sim, uint64_t conn, const struct message *message);
void net_close_agent(struct sim *sim, uint64_t conn); /* this end closes; the other hears of it */
void net_close_controller(struct sim *sim, uint64_t conn);
void net_pump(struct sim *sim, const struct sim_event *event);
void net_unacked(struct sim *sim, const struct sim_event *event);
#define NET_ALL UINT32_MAX
/* Cuts of this host came or went: what waited may move. */
void net_changed(struct sim *sim, uint32_t host);
void net_drop_all(struct sim *sim, uint32_t host); /* the host is gone without a word */
void net_controller_died(struct sim *sim);
void net_probe(struct sim *sim, uint32_t host, const struct agent_probe *probe);
void net_probe_event(struct sim *sim, const struct sim_event *event);
void net_probe_reply(struct sim *sim, uint64_t token, const struct msg_peer_reply *reply);
void net_done(struct sim *sim);

/* controller.c */
void ctl_start(struct sim *sim);
void ctl_die(struct sim *sim, const char *why, uint64_t back_ms);
void ctl_turn(struct sim *sim);
void ctl_tick(struct sim *sim, const struct sim_event *event);
void ctl_commit_end(struct sim *sim, const struct sim_event *event);
void ctl_judge_end(struct sim *sim);
/* hook.c */
void hook_start(struct sim *sim, const struct action *action);
void hook_end(struct sim *sim, const struct sim_event *event);

void ctl_input(struct sim *sim, uint8_t kind, uint64_t session, bool flag,
               const struct message *message);
void ctl_request(struct sim *sim, struct sim_request *request); /* takes it */
void ctl_done(struct sim *sim);
uint64_t ctl_wall_ms(const struct sim *sim);
void ctl_cut_store(struct sim *sim, uint64_t most); /* dead; keeps whole commits, at most so many */
struct core *ctl_fold(struct sim *sim, uint64_t count); /* a fresh core of the first records */

/* agent.c */
void agent_start(struct sim *sim, uint32_t host);
void agent_die(struct sim *sim, uint32_t host, const char *why);
void agent_turn(struct sim *sim, uint32_t host);
void agent_tick(struct sim *sim, const struct sim_event *event);
void agent_commit_end(struct sim *sim, uint32_t host);
void agent_poll(struct sim *sim, const struct sim_event *event);
struct sim_agent_input *agent_input(struct sim *sim, uint32_t host, uint8_t kind);
void agent_deliver(struct sim *sim, uint32_t host, uint64_t conn, const struct message *message);
void agent_link(struct sim *sim, uint32_t host, uint64_t conn, bool up, const char *why);
void agent_wake(struct sim *sim, uint32_t host);
void agent_done(struct sim *sim, uint32_t host);
bool agent_runs(const struct sim_host *host); /* up and not stopped */

/* shim.c */
void shim_start(struct sim *sim, uint32_t host, const struct msg_desired *order);
void shim_up(struct sim *sim, const struct sim_event *event);
void shim_signal(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt, bool kill);
void shim_sweep(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt);
void shim_scan(struct sim *sim, uint32_t host, uint32_t job);
void shim_scanned(struct sim *sim, const struct sim_event *event);
void shim_forget(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt);
void shim_die(struct sim *sim, uint32_t host, uint32_t index);
void shim_rank_end(struct sim *sim, uint32_t host, uint32_t index, uint32_t rank, uint8_t state,
                   int32_t code, uint64_t after_ms); /* it will end then */
void shim_rank_gone(struct sim *sim, const struct sim_event *event);
void shim_look(struct sim *sim, const struct sim_event *event); /* is it empty now? */
void shim_changed(struct sim *sim, uint32_t host, uint32_t index);
void shim_view(const struct sim_shim *shim, struct agent_shim_view *ret_view);
struct sim_shim *shim_find(struct sim_host *host, uint32_t job, uint32_t attempt);
bool shim_lives(const struct sim_shim *shim); /* any rank of it does */
void shim_done(struct sim_host *host);
void shim_host_down(struct sim *sim, uint32_t host, bool wiped);

/* train.c */
struct sim_mail *train_mails(struct sim_rank *rank); /* made when they are first needed */
void train_mails_done(struct sim_rank *rank);
uint32_t train_number(const char *job_name); /* of its options */
uint32_t train_join(struct sim *sim, uint32_t host, const struct msg_desired *order);
void train_look(struct sim *sim, uint32_t train);
void train_event(struct sim *sim, const struct sim_event *event);
void train_mail_answer(struct sim *sim, uint32_t host, const struct agent_action *action);
void train_mail_request(struct sim *sim, uint32_t host, const struct agent_action *action);
struct sim_save *train_save(struct sim *sim, uint32_t job, uint32_t attempt, uint64_t step);
const struct sim_job_options *train_options(const struct sim *sim, const char *job_name);

/* fault_aim.c: what strikes recoveries in flight */
void aim_phase(struct sim *sim, uint32_t job, uint8_t phase); /* it begins now */
void aim_strike(struct sim *sim, const struct sim_event *event);
bool aim_do(struct sim *sim, enum sim_fault fault);

/* fault_train.c: faults of programs and of what they share */
bool program_fault_do(struct sim *sim, enum sim_fault fault);
void program_step(struct sim *sim, struct sim_train *train);  /* it has completed one */
bool program_waits(struct sim *sim, struct sim_train *train); /* for the storage, if it must */
void program_heal(struct sim *sim);

/* fault.c, operator.c */
uint32_t fault_pick_host(struct sim *sim); /* SIM_HOSTS_MAX: none */
bool fault_draw(struct sim *sim);          /* one by the weights; true: it struck */
void fault_flap(struct sim *sim, const struct sim_event *event);
void fault_undo_later(struct sim *sim, enum sim_fault fault, uint32_t host, uint64_t after_ms);
void kill_node(struct sim *sim, uint32_t host, uint64_t back_ms); /* agent, shims and ranks */
void operator_drain(struct sim *sim, uint32_t node);
void operator_cancel(struct sim *sim, uint32_t job);
void fault_strike(struct sim *sim);
bool fault_do(struct sim *sim, enum sim_fault fault);
void fault_undo(struct sim *sim, const struct sim_event *event);
void fault_heal(struct sim *sim);
void host_down(struct sim *sim, uint32_t host, uint64_t back_ms, bool wiped, const char *why);
void host_up(struct sim *sim, uint32_t host);
void operator_act(struct sim *sim);
void operator_heal(struct sim *sim);
void operator_submit(struct sim *sim, uint32_t index);
struct sim_request *operator_request(struct sim *sim, uint8_t verb);

/* judge_records.c: what became durable, against a memory of its own */
void judge_records(struct sim *sim);
struct sim_shadow_job *shadow_job(struct sim *sim, uint32_t job); /* NULL: never submitted */
bool shadow_marked(const struct sim *sim, uint32_t node, const char *code); /* NULL: any code */

uint64_t shadow_newest_good(const struct sim *sim, uint32_t job); /* its step; 0: there is none */

/* judge_reserve.c: what jobs keep for themselves */
void judge_reserve_record(struct sim *sim, const struct record *record);
/* judge_recovery.c: recoveries, and what restrains them */
void judge_recovery_record(struct sim *sim, const struct record *record);
void judge_lost(struct sim *sim, const struct record_node_lost *lost); /* it is being decided */
void judge_new_core(struct sim *sim); /* just folded, everything in it durable */
void judge_poison(struct sim *sim, struct sim_shadow_job *job); /* it has just failed again */
void judge_resumes(struct sim *sim); /* now and then, once all is healed; so too the next */
void judge_answers(struct sim *sim);

/* judge_world.c: what really happens on hosts, and the live state of the core */
void judge_state(struct sim *sim);
void judge_started(struct sim *sim, uint32_t host, const struct sim_shim *shim);
void judge_launch(struct sim *sim, uint32_t host, const struct msg_desired *order);
void judge_stopped(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt);
void judge_restored(struct sim *sim, const struct sim_train *train);
void judge_nothing_old(struct sim *sim, const struct sim_shadow_job *job);
void judge_nothing_left(struct sim *sim, const struct sim_shadow_job *job);
void judge_live(struct sim *sim);
bool live_all_over(const struct sim *sim);

#endif
