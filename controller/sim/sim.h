/* sim.h: the world in virtual time: one controller, a fleet of agents, their ranks, the network
 * between them, disks, an operator and all that goes wrong. Pure and deterministic: a seed is a
 * whole history.
 *
 * It drives the shipping decision code (controller/core, agent/core) and re-implements none of it:
 * what is modelled is only what lies outside of them. Judges with knowledge of everything look at
 * each step; when one of them objects, the run ends at once and says what it saw.
 *
 *     struct sim_options options;
 *     sim_options_draw(&options, seed);
 *     struct sim *sim = sim_create(&options);
 *     int result = sim_run(sim);            SIM_GOOD, SIM_LIVENESS or SIM_SAFETY
 *     puts(sim_result_text(sim));
 *     sim_free(sim);
 */
#ifndef KEEPSTEP_SIM_SIM_H
#define KEEPSTEP_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* Exit codes of keepstep-sim. */
enum sim_result { SIM_GOOD = 0, SIM_CRASH = 3, SIM_LIVENESS = 4, SIM_SAFETY = 5 };

/* What can go wrong. The word is what statistics and --only call it. */
#define SIM_FAULTS(X)                                                                              \
    X(HOST_DEATH, "host-death")           /* silent: no packet leaves it any more */               \
    X(HOST_REBOOT, "host-reboot")         /* all processes gone, back after minutes */             \
    X(HOST_WIPED, "host-wiped")           /* the same, and the agent's journal is lost */          \
    X(HOST_FREEZE, "host-freeze")         /* agent and ranks stand still, the kernel answers */    \
    X(AGENT_KILL, "agent-kill")           /* ranks go on; back within seconds or minutes */        \
    X(AGENT_CRASH, "agent-crash")         /* at a commit: before it, after it, amid its actions */ \
    X(AGENT_STOP, "agent-stop")           /* SIGSTOP of the agent alone */                         \
    X(AGENT_GOODBYE, "agent-goodbye")     /* stopped on purpose, for an upgrade */                 \
    X(NODE_KILL, "node-kill")             /* agent, shims and ranks at once, the host lives */     \
    X(RANK_SIGNAL, "rank-signal")         /* one rank ends by a signal */                          \
    X(RANK_EXIT, "rank-exit")             /* one rank ends with 1, 16, 17, 75 or 93 */             \
    X(RANK_HANG, "rank-hang")             /* one rank stands still, the others wait */             \
    X(RANK_STUBBORN, "rank-stubborn")     /* ranks of a node ignore TERM */                        \
    X(RANK_UNKILLABLE, "rank-unkillable") /* … and KILL, until the host reboots */               \
    X(SHIM_KILL, "shim-kill")             /* the ranks' parent dies, they do not */                \
    X(LAUNCH_FAIL, "launch-fail")         /* a node cannot start processes */                      \
    X(BAD_SPARE, "bad-spare")             /* a node's quick check fails */                         \
    X(PORT_TAKEN, "port-taken")           /* the rendezvous port is in use */                      \
    X(LINK_RESET, "link-reset")                                                                    \
    X(LINK_SLOW, "link-slow")          /* hundreds of ms for a while */                            \
    X(CUT_BOTH, "cut-both")            /* a node's path to the controller, both directions */      \
    X(CUT_UP, "cut-up")                /* node to controller only */                               \
    X(CUT_DOWN, "cut-down")            /* controller to node only */                               \
    X(CUT_GROUP, "cut-group")          /* a rack, leaf or feed from all others */                  \
    X(RACK_DEATH, "rack-death")        /* all hosts of a rack, leaf or feed */                     \
    X(REPEAT, "repeat")                /* a message arrives twice */                               \
    X(REORDER, "reorder")              /* a message overtakes another one */                       \
    X(FALSE_ALARM, "false-alarm")      /* a node's own checks fail for a while */                  \
    X(FATAL_SIGNAL, "fatal-signal")    /* a probe reports a fatal fault */                         \
    X(TORN_SAVE, "torn-save")          /* the newest checkpoint cannot be loaded */                \
    X(CTL_BEFORE, "controller-before") /* controller dies before a commit */                       \
    X(CTL_AFTER, "controller-after")   /* after it, before its actions */                          \
    X(CTL_MID, "controller-mid")       /* amid its actions */                                      \
    X(CTL_STALL, "controller-stall")   /* stands still for 40 s */                                 \
    X(DISK_FAIL, "disk-fail")          /* commits fail for a while */                              \
    X(DISK_SLOW, "disk-slow")                                                                      \
    X(WALL_BACK, "wall-back")         /* the controller's wall clock: 700 s back */                \
    X(WALL_FORWARD, "wall-forward")   /* … a day forward */                                      \
    X(STALE_HELLO, "stale-hello")     /* an agent of an older life says hello late */              \
    X(MORE_FAILURES, "more-failures") /* one or two further hosts of a job amid its recovery */    \
    X(SPARE_DEAD, "spare-dead")       /* a spare dies when it is taken, or just before */          \
    X(STALE_ATTEMPT, "stale-attempt") /* ranks out of reach for 5 min, then back */                \
    X(LINK_FLAP, "link-flap")         /* a node's path goes and comes */                           \
    X(LINK_CLOG, "link-clog")         /* nothing passes for a moment, then all of it at once */    \
    X(CUT_MANY, "cut-many")           /* the controller's own network: most nodes, all racks */    \
    X(STORAGE_LOSS, "storage-loss")   /* nobody can save, load or pass a check */                  \
    X(STRAGGLER, "straggler")         /* a host computes slowly, and with it the job */            \
    X(SDC, "sdc")                     /* wrong numbers: noticed later, saves since are useless */  \
    X(POISON, "poison-job")           /* a job that fails at one step wherever it runs */          \
    X(OLD_AGENT, "old-agent")         /* one that does not know the newest messages */             \
    X(DISK_FULL, "disk-full")         /* commits fail for minutes */                               \
    X(DISK_BUSY, "disk-busy")         /* commits fail now and then */                              \
    X(DISK_UNKNOWN, "disk-unknown")   /* a commit's end is not known: it is read back */

enum sim_fault {
#define X(upper, word) SIM_##upper,
    SIM_FAULTS(X)
#undef X
};
enum {
#define X(upper, word) +1
    SIM_FAULT_COUNT = 0 SIM_FAULTS(X)
#undef X
};
extern const char *const sim_fault_words[];

/* What the operator does at random. */
#define SIM_VERBS(X)                                                                               \
    X(SUBMIT, "submit")                                                                            \
    X(CANCEL, "cancel")                                                                            \
    X(HOLD, "hold")                                                                                \
    X(RELEASE, "release")                                                                          \
    X(SAVE, "checkpoint")                                                                          \
    X(RESTART, "restart")                                                                          \
    X(DRAIN, "drain")                                                                              \
    X(UNDRAIN, "undrain")                                                                          \
    X(CORDON, "cordon")                                                                            \
    X(UNCORDON, "uncordon")                                                                        \
    X(PAUSE, "pause")                                                                              \
    X(RESUME, "resume")                                                                            \
    X(REMOVE, "remove")

enum sim_verb {
#define X(upper, word) SIM_DO_##upper,
    SIM_VERBS(X)
#undef X
};
enum {
#define X(upper, word) +1
    SIM_VERB_COUNT = 0 SIM_VERBS(X)
#undef X
};
extern const char *const sim_verb_words[];

/* What is judged: what must hold in every history, each with its name in the statistics. */
#define SIM_JUDGES(X)                                                                              \
    X(BIJECTION, "layout-bijection") /* slots and nodes of a job match one to one */               \
    X(OLD_ATTEMPT, "no-old-attempt") /* no rank of an old attempt where a new one runs */          \
    X(ONCE, "rank-once")             /* no rank of an attempt starts twice */                      \
    X(MARKED, "marked-untouched")    /* a marked or lost node is given nothing new */              \
    X(DURABLE, "record-before-act")  /* no effect without its durable record */                    \
    X(ORDERED, "stop-by-order")      /* ranks are ended only when a record says so */              \
    X(TABLE, "transitions")        /* every move starts where the last one ended, and is legal */  \
    X(OWNER, "mark-owner")         /* nobody's mark is removed by another */                       \
    X(SPARES, "spares-conserved")  /* every node is in one place */                                \
    X(CHOSEN, "checkpoint-chosen") /* what is restored is complete, and really is there */         \
    X(KEPT, "checkpoint-kept")     /* what was committed is never lost or passed over */           \
    X(BUDGET, "budgets")           /* count up, and back to 0 only with progress */                \
    X(TIME, "seconds")             /* every ms has one kind and they sum up */                     \
    X(SWAP, "swap-rule")           /* only the slots of nodes that leave change */                 \
    X(REPLAY, "replay")            /* records fold to the state that wrote them */                 \
    X(SNAPSHOT, "snapshot")        /* images fold to the same state */                             \
    X(AGENT_REPLAY, "agent-replay")                                                                \
    X(INVARIANT, "invariants") /* core_check, agent_core_check */                                  \
    X(PHASES, "phase-order")   /* one recovery a job, its phases in order */                       \
    X(STEP, "durable-step")    /* the step to restore goes back only by a record that says so */   \
    X(BREAKERS, "breakers")    /* nothing harmful while one is open; none opens too late */        \
    X(ALIVE, "no-false-loss")  /* a node that is well and in reach is not taken for lost */        \
    X(RESERVE, "reserve-kept") /* no job starts on nodes that others keep */                       \
    X(POISONED, "poison-ends") /* a job that always fails is held or fails, and takes few nodes */ \
    X(RESUMES, "resumes")      /* healed: no recovery takes long, unless it says what it lacks */  \
    X(ANSWERED, "saves-answered") /* healed: what a rank tells of its save is answered */          \
    X(LIVE, "liveness")           /* healed, with enough nodes: every job ends or says why not */

enum sim_judge {
#define X(upper, word) SIM_JUDGE_##upper,
    SIM_JUDGES(X)
#undef X
};
enum {
#define X(upper, word) +1
    SIM_JUDGE_COUNT = 0 SIM_JUDGES(X)
#undef X
};
extern const char *const sim_judge_words[];

/* Situations that a run must have been in, or it proves less than it says. */
#define SIM_SITUATIONS(X)                                                                          \
    X(MERGED, "second-failure")                                                                    \
    X(MERGED_AGAIN, "third-failure")                                                               \
    X(REPLANNED, "planned-anew")    /* an attempt that was planned and never launched */           \
    X(NO_SPARE, "spares-exhausted") /* a job waits for one, and says so */                         \
    X(SILENCE, "silence-breaker")                                                                  \
    X(RATE, "rate-breaker")                                                                        \
    X(HELD, "job-held")                                                                            \
    X(FENCED, "node-fenced")                                                                       \
    X(PROBATION, "on-probation")                                                                   \
    X(ORDERED, "hook-ordered")                                                                     \
    X(REPAIRED, "repaired")                                                                        \
    X(PERSON, "repair-asks-a-person")                                                              \
    X(UNFIT, "validation-failed")                                                                  \
    X(STALE_RANKS, "stale-ranks-back") /* a lost node is back, old ranks alive */                  \
    X(FACILITY, "lost-together")                                                                   \
    X(FATAL, "fatal-verdict")                                                                      \
    X(HANG, "hang-verdict")                                                                        \
    X(POISON, "poison-verdict")                                                                    \
    X(CORRUPT, "corrupt-checkpoint")                                                               \
    X(OLDER, "older-checkpoint") /* one is restored although a newer one was written */            \
    X(STORE_FULL, "store-refuses")                                                                 \
    X(INTERVAL, "interval-chosen") /* by what saves were measured to take */                       \
    X(ASKED, "save-when-due")      /* the controller asked for one by itself */                    \
    X(RESERVE, "reserve-chosen")                                                                   \
    X(SPARES_LOW, "spares-low")                                                                    \
    X(SPARES_READY, "spares-ready") /* … and are enough again */                                 \
    X(KEPT_BACK, "spares-kept")     /* a job waits while some are ready, for other jobs */

enum sim_situation {
#define X(upper, word) SIM_SEEN_##upper,
    SIM_SITUATIONS(X)
#undef X
};
enum {
#define X(upper, word) +1
    SIM_SITUATION_COUNT = 0 SIM_SITUATIONS(X)
#undef X
};
extern const char *const sim_situation_words[];

/* Phases of a recovery in which an operator may strike: stop to first_step. */
enum { SIM_PHASE_COUNT = 7 };
extern const char *const sim_phase_words[];

/* Mistakes that tests build into the world, one at least to trip each judge. */
#define SIM_MUTATIONS(X)                                                                           \
    X(START_TWICE, "start-twice", ONCE)      /* a shim starts its ranks twice */                   \
    X(KEEP_OLD, "keep-old", OLD_ATTEMPT)     /* a stop proves empty what still runs */             \
    X(ACT_EARLY, "act-early", DURABLE)       /* actions do not wait for their commit */            \
    X(STOP_UNASKED, "stop-unasked", ORDERED) /* ranks are ended by orders that nobody gave */      \
    X(LOSE_SHARD, "lose-shard", CHOSEN)      /* storage loses a committed shard */                 \
    X(LOSE_RECORD, "lose-record", REPLAY)    /* the journal forgets a record */                    \
    X(LOSE_AGENT_RECORD, "lose-agent-record", AGENT_REPLAY) /* an agent's journal does */          \
    X(EDIT_SNAPSHOT, "edit-snapshot", SNAPSHOT)             /* an image is changed */              \
    X(DEAF, "deaf", LIVE)                    /* once healed no agent reaches the controller */     \
    X(EDIT_MARK, "edit-mark", MARKED)        /* what judges read: a mark on a node given a slot */ \
    X(EDIT_MOVE, "edit-move", TABLE)         /* … the state that a move starts from */           \
    X(EDIT_OWNER, "edit-owner", OWNER)       /* … who cleared a mark */                          \
    X(EDIT_BUDGET, "edit-budget", BUDGET)    /* … a budget that goes down */                     \
    X(EDIT_TIME, "edit-time", TIME)          /* … a gap in the seconds */                        \
    X(EDIT_RESTORE, "edit-restore", KEPT)    /* … an older checkpoint is taken */                \
    X(EDIT_SLOT, "edit-slot", SWAP)          /* … a slot changes whose node did not leave */     \
    X(EDIT_LAYOUT, "edit-layout", BIJECTION) /* … one node in two slots */                       \
    X(EDIT_SPARE, "edit-spare", SPARES)      /* … a node that nobody counts */                   \
    X(EDIT_PHASE, "edit-phase", PHASES)      /* … a phase out of order */                        \
    X(EDIT_STEP, "edit-step", STEP)          /* … what a new controller would restore */         \
    X(EDIT_BREAKER, "edit-breaker", BREAKERS) /* … an attempt while the breaker is open */       \
    X(EDIT_ALIVE, "edit-alive", ALIVE)        /* … the node lost was well */                     \
    X(EDIT_POISON, "edit-poison", POISONED)   /* … how often a job has failed at its step */     \
    X(EDIT_RESERVE, "edit-reserve", RESERVE)  /* … how many nodes other jobs keep */             \
    X(EDIT_STUCK, "edit-stuck", RESUMES)      /* … how long a recovery has taken */              \
    X(LOSE_ANSWER, "lose-answer", ANSWERED)   /* what is said of saves never arrives */            \
    X(BREAK_CORE, "break-core", INVARIANT)    /* the core's memory is changed: it aborts */

enum sim_mutation {
    SIM_NO_MUTATION,
#define X(upper, word, judge) SIM_##upper,
    SIM_MUTATIONS(X)
#undef X
};
enum { SIM_MUTATION_COUNT = SIM_BREAK_CORE + 1 };
/* -1 when there is none of that name. */
int sim_mutation_find(const char *word);
/* The judge that a mutation must trip. */
enum sim_judge sim_mutation_judge(enum sim_mutation mutation);

enum { SIM_HOSTS_MAX = 13312, SIM_JOBS_MAX = 12, SIM_TRACE_LINES = 200 };

struct sim_job_options {
    uint32_t slots;
    uint32_t ranks_per_node;
    uint32_t steps; /* of the whole run */
    uint32_t step_ms;
    uint32_t save_every; /* steps between the program's own saves, where nobody asks for them */
    uint32_t save_ms;
    uint32_t init_ms;
    uint32_t load_ms;
    uint32_t followers_ms; /* after a peer's death a rank ends with 1; 0: it hangs */
    uint32_t retries_user;
    uint32_t retries_unknown;
    uint32_t interval_ms; /* the controller asks for a save that often; 0: not, or … */
    bool interval_auto;   /* … as it chooses */
    uint32_t reserve;     /* spares kept for it */
    bool reserve_auto;
    uint32_t min_ready;
};

struct sim_options {
    uint64_t seed;
    uint32_t hosts;
    uint32_t hosts_per_rack;
    uint32_t racks_per_leaf;
    uint32_t jobs;
    struct sim_job_options job[SIM_JOBS_MAX];
    uint64_t chaos_ms;    /* how long faults strike */
    uint64_t healed_ms;   /* how long everything may take after that */
    uint32_t delay_ms[2]; /* network, least and most */
    uint32_t commit_ms[2];
    uint32_t fault_gap_ms; /* mean time between faults; a tenth while a recovery runs */
    uint32_t operator_gap_ms;
    uint32_t weight[SIM_FAULT_COUNT]; /* 0: never */
    uint32_t verb_weight[SIM_VERB_COUNT];
    uint32_t aim_ppm;        /* so likely a phase that begins is struck; at most 125,000 */
    bool few_nodes;          /* after the healing some hosts stay broken: not all jobs can run */
    uint32_t start_grace_ms; /* of the controller */
    uint32_t fence_after_ms; /* of the agents; 0: never */
    uint32_t hooks;          /* bits of enum repair_hook_word: those that the site has */
    uint32_t repair_wait_ms; /* of the controller */
    enum sim_mutation mutation;
    bool check_all; /* core_check after every step, not only those that wrote */
    /* Where trace lines go, oldest first; NULL: only the last are kept. */
    void (*line)(void *context, const char *line);
    void *line_context;
};

/* Everything about a run from its seed: sizes, probabilities, and which classes are off. */
void sim_options_draw(struct sim_options *ret_options, uint64_t seed);
/* The same with so many hosts; from SIM_LARGE on with one job of 8 ranks a node on nearly all. */
enum { SIM_LARGE = 100 };
void sim_options_scale(struct sim_options *options, uint32_t hosts);

struct sim_stats {
    uint64_t struck[SIM_FAULT_COUNT];
    uint64_t asked[SIM_VERB_COUNT];
    uint64_t judged[SIM_JUDGE_COUNT];
    uint64_t seen[SIM_SITUATION_COUNT];
    uint64_t drained[SIM_PHASE_COUNT];
    uint64_t cancelled_in[SIM_PHASE_COUNT];
    uint64_t events;
    uint64_t records;
    uint64_t agent_records;
    uint64_t messages;
    uint64_t restarts; /* of the controller */
    uint64_t recoveries;
    uint64_t virtual_ms;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t held;
};

struct sim;
struct sim *sim_create(const struct sim_options *options);
struct sim *sim_free(struct sim *sim);

/* The whole history: chaos, healing, end. */
enum sim_result sim_run(struct sim *sim);

const struct sim_stats *sim_stats_of(const struct sim *sim);
/* All records that were made durable, folded into one number: two builds must agree on it. */
uint64_t sim_digest(const struct sim *sim);
/* "" when good; else which judge, what it saw. */
const char *sim_result_text(const struct sim *sim);
enum sim_judge sim_result_judge(const struct sim *sim);
/* The last lines of the trace, oldest first; NULL past the end. */
const char *sim_trace_line(const struct sim *sim, uint32_t index);

/* ---- killed at every record (kill.c) ------------------------------------------------------ */

/* One scenario without chance: a job loses a node, then a rank, then a node by drain, and ends.
 * It is run once unhurt; then for each n, and each process that writes records, it is run with
 * that process killed before its n-th record is durable and once more after it, before any of its
 * actions. Every run must come to the same end, with the same processes started per rank and
 * attempt.  Returns the result of the first run that differs. */
struct sim_kill_report {
    uint32_t controller_records;
    uint32_t agent_records; /* of all agents together */
    uint32_t runs;
    char text[512]; /* what differed, "" when nothing did */
};
enum sim_result sim_kill_every_record(uint64_t seed, struct sim_kill_report *ret_report,
                                      void (*line)(void *context, const char *line),
                                      void *line_context);
/* One of those runs alone, with its trace: host UINT32_MAX is the controller, record 0 the unhurt
 * one. ret_text gets its summary. */
enum sim_result sim_kill_one(uint64_t seed, uint32_t host, uint32_t record, bool after,
                             char ret_text[256], void (*line)(void *context, const char *line),
                             void *line_context);

/* The same scenario, struck from outside once its n-th record is durable, for each n: the job is
 * cancelled, a node drained or cut off, a rank ends, one host dies or two at once. A cancelled job
 * must end as cancelled, each other one must succeed, and no judge may object. */
enum sim_result sim_strike_every_record(uint64_t seed, struct sim_kill_report *ret_report);
/* One of those alone, with its trace; strike 1 to 6 in the order above. */
enum sim_result sim_strike_one(uint64_t seed, uint8_t strike, uint64_t record, char ret_text[256],
                               void (*line)(void *context, const char *line), void *line_context);

/* ---- an older store (old_store.c) --------------------------------------------------------- */

/* A job runs; the controller dies and comes back on the first keep_ppm of its records (0: on an
 * empty store). For a quarter of an hour after that every rank must live and steps must be made. */
enum sim_result sim_old_store(uint64_t seed, uint32_t keep_ppm, char ret_text[256],
                              void (*line)(void *context, const char *line), void *line_context);

#endif
