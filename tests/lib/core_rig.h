/* core_rig.h: the controller's core with obedient, hand-driven agents around it, for unit and
 * scenario tests. Time is virtual and moves only by rig_run. Every committed record is kept, so
 * that a test may replay them, restart the controller, or look for one. Agents here are a model of
 * messages only; the simulator drives the real agent core. */
#ifndef KEEPSTEP_TESTS_CORE_RIG_H
#define KEEPSTEP_TESTS_CORE_RIG_H

#include "controller/core/core.h"
#include "controller/core/state.h"

enum { RIG_SAVES_MAX = 32 };
enum {
    RIG_NODES_MAX = 160, /* of rig_create and of scenarios; rig_create_with takes any number */
    RIG_RECORDS_MAX = 40000,
    RIG_RANKS = 2,
    RIG_REPEAT_MS = 10000
};

/* What the site's fencing hook does; it is there only with config.fence_hook. */
enum rig_fence { RIG_FENCE_WORKS, RIG_FENCE_FAILS, RIG_FENCE_HANGS };
/* What becomes of a hook that mends a node. They are there with config.repair_hooks. */
enum rig_hook { RIG_HOOK_WORKS, RIG_HOOK_FAILS, RIG_HOOK_HANGS };
enum rig_peer { RIG_PEER_OK, RIG_PEER_REFUSED, RIG_PEER_SILENT, RIG_PEER_NOTHING };

struct rig_attempt {
    struct attempt_report report;
    uint64_t started_ms;
    bool forget;
    uint64_t stop_seen_ms; /* when its first stop order came; 0 = none has */
    uint64_t stop_at_ms;   /* it will be empty then; 0 = not told to stop */
    uint64_t base_step;
    uint32_t world;
    uint64_t trained_ms; /* synchronous: how long it ran together with all its peers */
    uint64_t used_ms;    /* processor time */
    uint64_t printed_ms; /* when it last printed another step */
    uint32_t save_asked; /* of rank 0: as its orders say, and as it has begun them */
    uint32_t save_begun;
    uint64_t save_end_ms; /* the save that is being written; 0 = none */
    uint64_t save_step;
};

/* What a rank's program tells beside its progress, again and again while its attempt runs. */
struct rig_told {
    uint64_t next_ms; /* 0: nothing */
    struct msg_rank_detail detail;
};

struct rig_node {
    char name[NAME_SIZE];
    char rack[NAME_SIZE];
    char pool[NAME_SIZE]; /* "" */
    char boot_id[BOOT_ID_SIZE];
    char cluster_id[CLUSTER_ID_SIZE];
    uint64_t term_seen;
    uint64_t incarnation;
    uint64_t session; /* 0 = not connected */
    uint64_t beat;    /* sequence */
    uint64_t beat_at_ms;
    uint32_t clock_slow_ppm; /* its clock runs slower than the controller's */
    bool clean;              /* says that the last agent there said goodbye */
    bool agent_up;           /* sends beats, obeys */
    bool host_up;            /* answers a connect at all */
    uint8_t peer;            /* what a prober sees when the agent is not up: enum rig_peer */
    bool ignore_stop;        /* its ranks never end */
    bool hang;               /* its ranks live and do nothing; synchronous only */
    uint8_t stuck;           /* … those of these bits in this phase, when there are any */
    uint8_t stuck_phase;     /* enum rank_phase */
    bool check_fails;
    bool validation_fails;
    bool ignore_validation;
    uint32_t validations; /* times it was asked, said again or not */
    uint8_t validation_level;
    uint64_t repair_end_ms; /* the hook that runs for it ends then; 0 = none runs */
    uint32_t repair_order;
    uint8_t repair_hook;
    bool ignore_check;
    uint16_t old_protocol; /* it speaks that minor version less one; 0: the present one */
    bool ignore_run;       /* an order to run finds nobody */
    bool no_launch;        /* it cannot start ranks, and says so */
    bool no_peer;          /* it does not answer peers: says hello without a peer port */
    bool port_never;       /* every port proof fails */
    bool port_taken;       /* first port proof fails */
    uint64_t fact_sequence;
    struct msg_peers peers; /* as told last */
    uint32_t peers_heard;   /* times */
    uint32_t runs_heard;    /* orders to run anything, repeated ones too */
    uint32_t stops_heard;   /* … to stop anything */
    struct rig_told told[RIG_RANKS];
    uint32_t attempt_count;
    struct rig_attempt attempts[ATTEMPTS_PER_NODE_MAX];
};

/* A checkpoint that lies in the folder of all jobs, as any agent of the rig sees it. */
struct rig_save {
    uint64_t step;
    uint32_t attempt;
    bool spoilt;  /* it is not complete */
    bool corrupt; /* its hashes are wrong */
    uint32_t parts;
    uint64_t written_ms;
    char hash[HASH_TEXT_SIZE];
    char directory[PATH_SIZE];
    char text[TEXT_SIZE];
};

struct rig {
    struct core *core;
    struct core_config config;
    struct core_limits limits;
    uint64_t now_ms;
    uint64_t next_session;
    uint64_t step_ms;    /* training speed, default 100 */
    uint64_t init_ms;    /* start -> first phase step, default 200 */
    uint64_t restore_ms; /* synchronous: between the two, default 0 */
    bool steps_stopped;
    bool synchronous; /* ranks move only while every rank of their attempt does */
    uint32_t node_count;
    struct rig_node *nodes;
    struct record *records; /* all committed ones */
    uint32_t record_count;
    uint32_t record_room;
    uint32_t commit_ends[RIG_RECORDS_MAX]; /* record_count after each commit that held any */
    uint32_t commit_count;
    uint64_t *starts;                 /* processes started on each node in all */
    uint8_t fence;                    /* enum rig_fence */
    uint32_t *fences;                 /* how often the hook was started for each node */
    uint8_t hooks[repair_hook_count]; /* enum rig_hook */
    uint32_t hook_ms;                 /* so long they take; default 20 s */
    uint32_t *repairs;    /* orders of each node that a hook was started for, each once */
    uint32_t hook_starts; /* in all, said again or not */
    int32_t reply_result;
    uint32_t reply_job;
    bool reply_changed;
    char reply_text[TEXT_SIZE];
    bool no_library; /* the ranks' programs do not use it */
    /* Synchronous, and without the library: global rank 0 alone prints each step that can be
     * divided by this. 0 = none does. */
    uint64_t print_every;
    uint32_t save_takes_ms; /* programs save when they are asked, and it takes so long; 0 = not */
    uint32_t save_stall_ms; /* … and so long their ranks tell that they stood */
    uint64_t print_from; /* … and counts from here, as if it had restored that step by itself */
    bool output_unread;  /* the agents cannot read what is printed */
    bool spins;          /* programs that stand still use a processor */
    struct rig_save saves[RIG_SAVES_MAX];
    uint32_t save_count;
    int32_t save_error;  /* of every answer: 0 = none */
    bool save_silent;    /* agents do not answer */
    uint32_t save_blind; /* index + 1 of a node whose mount is missing: it sees an empty folder */
    char save_place[PATH_SIZE];   /* the folder that is looked into, as a listing says it */
    uint32_t listings;            /* that were asked for */
    uint32_t errands;             /* verifications and removals that were asked for */
    struct msg_save_ask save_ask; /* the last one of these */
    struct msg_checkpoint_answer save_answer; /* the last one, and to which node (index) */
    uint32_t save_answer_node;
    uint32_t save_answers;
    struct msg_desired order; /* the last one to run */
    char trace[1 << 20];
    uint32_t trace_size;
    bool verbose;
    bool unchecked; /* core_check is left out: it looks at every node in every step */
    bool together;  /* what agents say is looked at once a tick, as the driver does once a turn */
    /* The controller dies at the commit that holds record number kill_at (from 1; 0 = never):
     * before it, so that the whole commit is lost, or after it and before its actions. It is back
     * after kill_away_ms, by itself, as soon as time passes or somebody asks something. */
    uint32_t kill_at;
    bool kill_before;
    uint64_t kill_away_ms;
    bool dead;
    uint64_t lost_ms; /* time that rig_run added because of that */
};

struct rig *rig_create(uint32_t nodes,
                       uint64_t seed); /* nodes n-0001 …, two to a rack, not connected */
/* The same with room for hardly more: for tests that make hundreds of them. */
struct rig *rig_create_small(uint32_t nodes, uint64_t seed);
/* The same with limits and timings of one's own; zeros in config are the rig's defaults. */
struct rig *rig_create_with(uint32_t nodes, uint64_t seed, const struct core_limits *limits,
                            const struct core_config *config);
struct rig *rig_free(struct rig *rig);
void rig_connect(struct rig *rig, uint32_t node); /* index from 0 */
void rig_connect_all(struct rig *rig);
void rig_run(struct rig *rig, uint64_t ms); /* lets time pass in steps of 10 ms */
/* Until the job is in that state; false after limit_ms. */
bool rig_until(struct rig *rig, uint32_t job, uint8_t state, uint64_t limit_ms);
bool rig_until_phase(struct rig *rig, uint32_t job, uint8_t phase, uint64_t limit_ms);

struct job_spec rig_spec(const char *name, uint32_t slots); /* data = slots * 2, ranks_per_node 2 */
uint32_t rig_submit(struct rig *rig, const struct job_spec *spec); /* job id; 0: see reply_* */
int32_t rig_request(struct rig *rig, const struct request *request);
int32_t rig_nodes(struct rig *rig, uint8_t verb, const char *name, uint8_t when);
int32_t rig_job(struct rig *rig, uint8_t verb, uint32_t job);

void rig_kill_node(struct rig *rig, uint32_t node, uint8_t peer); /* agent and ranks, whole */
void rig_quiet(struct rig *rig, uint32_t node, uint8_t peer);     /* stands still, no FIN */
void rig_wake(struct rig *rig, uint32_t node);                    /* … and goes on */
void rig_boot(struct rig *rig, uint32_t node, bool clean); /* another boot, nothing runs there */
/* The hook that runs for this node ends; a reboot that works is one, also of a dead host. */
void rig_end_hook(struct rig *rig, uint32_t node, bool ok, const char *said);
void rig_kill_agent(struct rig *rig, uint32_t node, uint8_t peer); /* its ranks live on */
void rig_end_rank(struct rig *rig, uint32_t node, uint32_t index, uint8_t state, int32_t code);
void rig_end_all(struct rig *rig, uint32_t job, uint8_t state, int32_t code);
/* From now on this rank tells these communicators, until its attempt is over. */
void rig_tell(struct rig *rig, uint32_t job, uint32_t rank,
              const struct communicator_report *communicators, uint32_t count);
void rig_save(struct rig *rig, uint32_t job, uint64_t step); /* begin, shards, commit */
/* One more in the folder; its hash follows from step, attempt and text. */
struct rig_save *rig_lay(struct rig *rig, uint64_t step, uint32_t attempt);
void rig_send(struct rig *rig, uint32_t node, const struct message *message);
/* As rig_send, of a kind that agents send again until it is answered. */
void rig_send_sure(struct rig *rig, uint32_t node, const struct message *message);
/* A hello of this node on a session of its own, with what the caller changed in it. */
void rig_hello(struct rig *rig, uint32_t node, uint64_t session, uint64_t incarnation,
               const char *boot_id);
void rig_step(struct rig *rig, struct event *event);
void rig_event(struct rig *rig, uint8_t kind, uint64_t session);
void rig_restart(struct rig *rig, uint64_t away_ms); /* kill -9 of the controller, then a new one */

uint32_t rig_node_of(const struct rig *rig, uint32_t job, uint32_t slot); /* index */
uint32_t rig_count(const struct rig *rig, uint16_t kind); /* committed records of a kind */
const struct record *rig_last(const struct rig *rig, uint16_t kind);
void rig_replay_check(struct rig *rig); /* fold of all records == state; also from a snapshot */

#endif
