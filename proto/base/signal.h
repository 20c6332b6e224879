/* signal.h: what one line of a log, or one reading of a probe, says about whom. Pure.
 *
 * An agent reads lines with its catalogue (agent/core/catalog.h) and puts what they say into the
 * facts that it sends; the controller judges by that and never reads a line itself. The words are
 * those of catalogue files, `keepstep diagnose`, the journal and REST. */
#ifndef KEEPSTEP_BASE_SIGNAL_H
#define KEEPSTEP_BASE_SIGNAL_H

#include <stddef.h>
#include <stdint.h>

enum {
    SIGNAL_NAME_SIZE = 32,    /* of the catalogue's row, with the NUL: "xid-79", "nccl-closed" */
    SIGNAL_SUBJECT_SIZE = 64, /* what it is about: a PCI address, a server, a mount, a peer */
};

/* Whose fault it is when nothing else explains it. */
#define SIGNAL_LABEL(X)                                                                            \
    X(LABEL_UNKNOWN, "unknown")                                                                    \
    X(LABEL_BENIGN, "benign")                                                                      \
    X(LABEL_CASCADE, "cascade")                                                                    \
    X(LABEL_TRANSIENT, "transient")                                                                \
    X(LABEL_HARDWARE, "hardware-node")                                                             \
    X(LABEL_SOFTWARE, "node-software")                                                             \
    X(LABEL_USER, "user-code")                                                                     \
    X(LABEL_NETWORK, "network")                                                                    \
    X(LABEL_STORAGE, "storage")                                                                    \
    X(LABEL_FACILITY, "facility")                                                                  \
    X(LABEL_OPERATOR, "operator")

/* What it asks for when it is alone. Job action and repair lane in one word; the judge may do less
 * or more, since it sees the other nodes. */
#define SIGNAL_ADVICE(X)                                                                           \
    X(ADVICE_NONE, "none")                                                                         \
    X(ADVICE_FOLLOW, "follow_root")                                                                \
    X(ADVICE_WATCH, "degrade_watch")                                                               \
    X(ADVICE_STOP_EXPECTED, "stop_expected")                                                       \
    X(ADVICE_RESTART, "restart_in_place")                                                          \
    X(ADVICE_CLEAN, "clean_node_then_restart")                                                     \
    X(ADVICE_RESTART_FAIL, "restart_then_fail_job")                                                \
    X(ADVICE_FAIL, "fail_job_user")                                                                \
    X(ADVICE_HOLD_STORAGE, "hold_job_check_storage")                                               \
    X(ADVICE_HOLD_NETWORK, "hold_job_check_network")                                               \
    X(ADVICE_EVICT, "evict_node")                                                                  \
    X(ADVICE_EVICT_RESET, "evict_node_gpu_reset")                                                  \
    X(ADVICE_EVICT_REBOOT, "evict_node_reboot")                                                    \
    X(ADVICE_EVICT_DIAG, "evict_node_diag")                                                        \
    X(ADVICE_EVICT_RMA, "evict_node_rma")

/* Whether it can have begun a failure. Only a root or a symptom can blame anybody; a symptom does
 * so when no root explains it. */
#define SIGNAL_ROLE(X)                                                                             \
    X(ROLE_NOISE, "noise")                                                                         \
    X(ROLE_CASCADE, "cascade")                                                                     \
    X(ROLE_SYMPTOM, "symptom")                                                                     \
    X(ROLE_ROOT, "root")

/* Readings that a judge compares with each other, so it knows them by name. code and subject:
 *
 *   port-down, port-up   how often the link went down since the last reading; "mlx5_3/1", or
 *                        "mlx5_3/1 leaf=NAME" where the switch at its other end is known
 *   unreadable           nothing could be read of what should be there, which blames nobody
 *   clocks               why a GPU runs slower than it might, as bits; "gpu=2"
 *   step-ok              -; the job made this step while all this went on
 *   wait-root            how sure it is, as of no progress; ranks that others wait for
 *   slow-stage           compute time to the median of its stage's replicas, x 1,000; "rank=3554"
 *   hash-minority        how many replicas differ; "step=41200 stage=3 tp=2"
 *   stop-asked           an operator asked for the stop of the job
 *   beats-missed         how many; "bmc=reachable" or "bmc=unreachable" */
#define READING_PORT_DOWN "port-down"
#define READING_PORT_UP   "port-up"
#define READING_NONE      "unreadable"
#define READING_CLOCKS    "clocks"
#define READING_STEP      "step-ok"
#define READING_WAIT_ROOT "wait-root"
#define READING_SLOW      "slow-stage"
#define READING_HASH      "hash-minority"
#define READING_STOP      "stop-asked"
#define READING_BEATS     "beats-missed"

#define SIGNAL_ENUM(constant, word)  constant,
#define SIGNAL_COUNT(constant, word) +1
enum signal_label { SIGNAL_LABEL(SIGNAL_ENUM) };
enum signal_advice { SIGNAL_ADVICE(SIGNAL_ENUM) };
enum signal_role { SIGNAL_ROLE(SIGNAL_ENUM) };
/* Named as the word sets of the core are, since records carry these words. */
enum {
    signal_label_count = 0 SIGNAL_LABEL(SIGNAL_COUNT),
    signal_advice_count = 0 SIGNAL_ADVICE(SIGNAL_COUNT),
    signal_role_count = 0 SIGNAL_ROLE(SIGNAL_COUNT),
};
extern const char *const signal_label_words[];
extern const char *const signal_advice_words[];
extern const char *const signal_role_words[];

/* The words; "?" when out of range. */
const char *signal_label_word(uint32_t label);
const char *signal_advice_word(uint32_t advice);
const char *signal_role_word(uint32_t role);
/* The number of a word of `size` bytes, -1 when it is none. */
int signal_label_of(const char *word, size_t size);
int signal_advice_of(const char *word, size_t size);
int signal_role_of(const char *word, size_t size);

/* What a sign may do by itself, the `severity` of a fact: 0 nothing; 1 it is evidence when an attempt
 * ends, and ends none; 3 its node is broken: whatever runs there is stopped. An attempt that cannot
 * go on ends by itself, and a line of a log is no reason to end one that can: so only the root of a
 * hardware fault that asks for more than a look is a 3, and of software one whose node needs a reset.
 * 2, fatal for the attempt, is for readings that say so themselves. */
uint8_t signal_severity(uint32_t label, uint32_t advice, uint32_t role);

#endif
