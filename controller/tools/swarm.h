/* swarm.h: a whole fleet of agents in one process, for measurements. They speak the real protocol
 * over loopback, each on a connection of its own from an address of its own (127.x.y.z), and decide
 * with the shipping agent/core. What is not real: ranks are entries in a table that start at once
 * and end on order, records are durable the moment they are made, and a host that is silent is
 * silent because probes to it are never sent.
 *
 * One loop, one thread. An agent hears of everything through agent_feed(); an action that finds
 * something out at once queues it with agent_queue() instead, because a step must not begin inside
 * another one. */
#ifndef KEEPSTEP_TOOLS_SWARM_H
#define KEEPSTEP_TOOLS_SWARM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/core/agent_core.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    SWARM_AGENTS_MAX = 16384,
    SWARM_SHIMS = 4,   /* attempts that one agent keeps; its core's limit too */
    SWARM_INPUTS = 32, /* that wait at one agent */
    SWARM_TRAINS = 16, /* attempts whose progress is known; the oldest goes */
    SWARM_WAVES = 16,
    SWARM_RACK = 32,  /* nodes in one */
    SWARM_LEAF = 128, /* nodes behind one leaf switch */
    SWARM_FEEDS = 4,
    SWARM_READ_MS = 1000, /* between two looks into the mailboxes of ranks */
};

struct swarm_options {
    struct sockaddr_in controller;
    uint32_t agents;
    uint32_t gpus;        /* of each node */
    uint32_t step_ms;     /* between two steps of every job; 0: ranks leave their mailbox alone */
    const char *key_file; /* NULL: no TLS */
    uint16_t peer_port;   /* of the one probe listener; 0: any */
};

enum swarm_host {
    SWARM_UP,
    SWARM_DEAD,   /* nothing runs there, connects are refused */
    SWARM_SILENT, /* nothing gets in or out; nobody knows what runs there */
};

/* One attempt on one node, as its shim would tell of it. */
struct swarm_shim {
    struct agent_shim_view view;
    bool used;
    bool told; /* to end its ranks */
    uint32_t job;
    uint32_t attempt;
    uint64_t end_sequence;
    struct swarm_train *train;
};

/* What all nodes of one attempt share: it steps while every rank of it runs. */
struct swarm_train {
    bool used;
    uint32_t job;
    uint32_t attempt;
    uint32_t world;
    uint32_t slots;
    uint32_t running;  /* ranks */
    uint32_t shims;    /* that have started and were not told to stop */
    uint64_t restore;  /* step it began with */
    uint64_t began_ms; /* when all ranks ran; 0: they do not yet */
    uint64_t ended_ms; /* when the first one ended; 0: they all run */
};

struct swarm;
struct swarm_connection;

struct swarm_input {
    uint8_t kind; /* enum agent_event_kind */
    uint32_t job;
    uint32_t attempt;
    uint64_t nonce;
};

struct swarm_order {
    uint32_t job;
    uint32_t attempt;
};

struct swarm_agent {
    struct swarm *swarm;
    struct agent_core *core; /* NULL while its host is dead */
    struct swarm_connection *connection;
    char name[NAME_SIZE];
    uint32_t index;
    uint32_t lives;
    uint8_t host; /* enum swarm_host */
    bool paused;
    bool welcomed;
    uv_timer_t timer;
    uint64_t armed_ms; /* 0: is not */
    uint64_t read_ms;  /* next look into the mailboxes */
    uint64_t heard_ms;
    uint32_t input_count;
    struct swarm_input inputs[SWARM_INPUTS];
    struct swarm_shim shims[SWARM_SHIMS];
    struct swarm_order run; /* the last that came: counted once in its wave */
    struct swarm_order stop;
};

/* How something reached agent after agent; told once it has reached all that it must. */
struct swarm_wave {
    bool used;
    const char *what;
    uint32_t job;
    uint32_t attempt;
    uint32_t expected;
    uint32_t count;
    uint64_t *at_us; /* [count], CLOCK_MONOTONIC */
};

struct swarm_figures {
    uint64_t frames_in;
    uint64_t frames_out;
    uint64_t silence_ms_max; /* longest that an agent in session heard nothing */
    uint64_t downs;          /* connections lost that nobody here ended */
};

struct swarm {
    uv_loop_t loop;
    struct swarm_options options;
    struct swarm_agent *agents;
    struct agent_limits limits;
    struct agent_output *output; /* one for all: a step's actions are carried out before the next */
    struct message *message;     /* scratch of the decoder */
    struct buf *frame;           /* scratch of the encoder */
    struct swarm_tls *tls;
    struct swarm_peers *peers;
    struct swarm_script *script;
    struct swarm_train trains[SWARM_TRAINS];
    struct swarm_wave waves[SWARM_WAVES];
    uint32_t dialing;
    uint32_t welcomed;
    uint32_t run_below;  /* highest attempt that any agent was ordered to run, plus 1 */
    uint32_t stop_below; /* … to stop */
    bool connected;      /* all of them were welcomed once */
    bool ending;
    struct swarm_figures figures;
};

uint64_t swarm_now_ms(void);
uint64_t swarm_now_us(void);
/* One line of JSON on stdout: {"event": what, ...}. */
void swarm_say(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- swarm.c: agents ---- */
void agents_create(struct swarm *swarm);
void agents_close(struct swarm *swarm); /* handles close; memory stays until agents_free() */
void agents_free(struct swarm *swarm);
void agent_start(struct swarm_agent *agent); /* a first or a new life on a host that has booted */
void agent_end(struct swarm_agent *agent);   /* its process and all its ranks are gone */
void agent_feed(struct swarm_agent *agent, struct agent_event *event);
void agent_queue(struct swarm_agent *agent, const struct swarm_input *input);
void agent_pause(struct swarm_agent *agent, bool paused);
bool agent_listens(const struct swarm_agent *agent); /* its process runs and hears its network */
struct swarm_agent *agent_by_name(struct swarm *swarm, const char *name); /* NULL: none */
struct swarm_agent *agent_by_address(struct swarm *swarm, uint32_t ipv4); /* host order */
uint32_t agent_address(const struct swarm_agent *agent);

/* ---- swarm_link.c: connections to the controller ---- */
MUST_CHECK int tls_create(const char *key_file, struct swarm_tls **ret_tls, struct err *err);
struct swarm_tls *tls_destroy(struct swarm_tls *tls);
void connection_dial(struct swarm_agent *agent); /* LINK_UP or LINK_DOWN follows */
void connection_close(struct swarm_agent *agent);
void connection_send(struct swarm_agent *agent, const struct message *message);
void connection_listen(struct swarm_agent *agent,
                       bool on); /* off: what comes waits in the kernel */

/* ---- swarm_peers.c: the probe listener, and probes ---- */
MUST_CHECK int peers_create(struct swarm *swarm, struct err *err);
void peers_close(struct swarm *swarm);
struct swarm_peers *peers_free(struct swarm_peers *peers);
uint16_t peers_port(const struct swarm_peers *peers);
void peers_probe(struct swarm_agent *agent, const struct agent_probe *probe);
void peers_reply(struct swarm *swarm, uint64_t token, const struct msg_peer_reply *reply);

/* ---- swarm_ranks.c: shims, ranks and their progress ---- */
void ranks_start(struct swarm_agent *agent, const struct msg_desired *order);
void ranks_stop(struct swarm_agent *agent, uint32_t job, uint32_t attempt, int32_t signal);
void ranks_forget(struct swarm_agent *agent, uint32_t job, uint32_t attempt);
void ranks_drop(struct swarm_agent *agent); /* the host is gone, with all of them */
void ranks_read(struct swarm_agent *agent); /* feeds what their mailboxes say */
/* The first rank of its newest attempt ends by itself; false: none runs. */
bool ranks_exit(struct swarm_agent *agent, int32_t code);
struct swarm_shim *ranks_find(struct swarm_agent *agent, uint32_t job, uint32_t attempt);

/* ---- swarm_waves.c ---- */
void wave_add(struct swarm *swarm, const char *what, uint32_t job, uint32_t attempt,
              uint32_t expected);
void waves_free(struct swarm *swarm);

/* ---- swarm_script.c: what happens when ---- */
/* A line: [@MS] kill|silence|start NODES, pause NODES MS, rank-exit NODES [CODE], stats, orders,
 * quit. With @MS it happens so many ms after all agents were welcomed, else now. */
MUST_CHECK int script_line(struct swarm *swarm, const char *line, struct err *err);
MUST_CHECK int script_file(struct swarm *swarm, const char *path, struct err *err);
void script_begin(struct swarm *swarm);                            /* all agents are welcomed */
MUST_CHECK int script_stdin(struct swarm *swarm, struct err *err); /* lines that come there */
void script_create(struct swarm *swarm);
void script_close(struct swarm *swarm);
struct swarm_script *script_free(struct swarm_script *script);

#endif
