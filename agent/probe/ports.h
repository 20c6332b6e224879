/* ports.h: the network ports that ranks talk through, as the kernel's InfiniBand folder shows them.
 *
 * A port is watched once it has been ACTIVE in this boot and moved data, or when the site names it;
 * the one behind the default route (the management network) never is. A port that is down is told
 * at once and asks for nothing yet, since links come back; past `port_down` it is out. A link that was
 * lost and came back between two looks is an event. Errors are counted over ten seconds against limits, and stay told
 * for a minute after the last one. The part that decides is pure and open to tests. */
#ifndef KEEPSTEP_PROBE_PORTS_H
#define KEEPSTEP_PROBE_PORTS_H

#include "agent/probe/probe.h"

enum {
    PORT_ACTIVE = 4,
    PORT_LINK_UP = 5,
    PORT_NAME_SIZE = 64,
    PORT_WORD_SIZE = 32,
    PORT_LEAF_SIZE = 24,
    PORT_WINDOW_MS = 10000,
    PORT_CALM_WINDOWS = 6,
    PORT_GONE_ROUNDS = 3,
};

/* Counters: the file, how it is called in a text, the limit (of so many a window; 1 means any) and
 * the name of the signal. link_downed has no limit: each one is an event. */
#define PORT_COUNTERS(X)                                                                           \
    X(DOWNED, "counters/link_downed", "link_downed", 0, "")                                        \
    X(RECOVERY, "counters/link_error_recovery", "link_error_recovery", 1, "ib-link-recovery")      \
    X(SYMBOL, "counters/symbol_error", "symbol_error", 100, "ib-symbol-errors")                    \
    X(RECEIVE, "counters/port_rcv_errors", "port_rcv_errors", 100, "ib-receive-errors")            \
    X(DISCARDS, "counters/port_xmit_discards", "port_xmit_discards", 1000, "ib-discards")          \
    X(INTEGRITY, "counters/local_link_integrity_errors", "local_link_integrity_errors", 1,         \
      "ib-link-integrity")                                                                         \
    X(OVERRUN, "counters/excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors", 1,   \
      "ib-buffer-overrun")                                                                         \
    X(RESTART, "hw_counters/roce_slow_restart", "roce_slow_restart", 100, "roce-slow-restart")     \
    X(ACK, "hw_counters/local_ack_timeout_err", "local_ack_timeout_err", 10, "ib-ack-timeouts")    \
    X(RNR, "hw_counters/rnr_nak_retry_err", "rnr_nak_retry_err", 1, "ib-rnr-retries")

enum port_counter {
#define X(upper, path, word, limit, signal) PORT_##upper,
    PORT_COUNTERS(X)
#undef X
};
#define PORT_COUNTER_ONE(upper, path, word, limit, signal) +1
enum { PORT_COUNTER_COUNT = 0 PORT_COUNTERS(PORT_COUNTER_ONE) };

struct port_reading {
    char name[PORT_NAME_SIZE];       /* "mlx5_3/1" */
    uint32_t state;                  /* PORT_ACTIVE … */
    uint32_t phys_state;             /* PORT_LINK_UP … */
    char state_text[PORT_WORD_SIZE]; /* "4:ACTIVE" */
    char phys_text[PORT_WORD_SIZE];  /* "5:LinkUp" */
    uint64_t counters[PORT_COUNTER_COUNT];
    uint32_t has; /* a bit for each counter that could be read */
    bool moved;   /* data went through it, or nobody counts */
};

struct port_watch {
    char name[PORT_NAME_SIZE];
    int32_t index;             /* its place among the watched ones */
    char leaf[PORT_LEAF_SIZE]; /* the switch at its other end; "" = unknown */
    uint32_t gone_rounds;      /* in a row that its folder was not there */
    uint64_t downed;           /* link_downed as last told */
    bool has_downed;
    uint64_t down_since_ms; /* 0: it is up */
    bool owed;              /* it was seen down before its counter knew */
    uint64_t window_ms;     /* when this window began; 0: none yet */
    uint64_t window[PORT_COUNTER_COUNT];
    uint32_t window_has;
    uint32_t calm; /* windows without too many errors */
    int32_t worst; /* enum port_counter of the errors that are told; -1: none */
    uint64_t worst_count;
};

void port_watch_begin(struct port_watch *watch, const char *name, int32_t index);

/* "4: ACTIVE" to 4 and "4:ACTIVE". -EINVAL: another shape. */
MUST_CHECK int port_state_parse(const char *text, uint32_t *ret_state,
                                char ret_text[PORT_WORD_SIZE]);

/* One reading: the state of the link, with how often it was lost since the last one as its code,
 * and that of its errors. *ret_unseen: it was lost without being seen down, which *ret_event says.
 * down_ms: so long down is for good. */
void port_judge(struct port_watch *watch, const struct port_reading *reading, uint64_t now_ms,
                uint64_t down_ms, struct finding *ret_link, struct finding *ret_errors,
                struct finding *ret_event, bool *ret_unseen);

extern const struct probe probe_ports;

#endif
