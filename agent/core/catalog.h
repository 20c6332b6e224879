/* catalog.h: what known lines of logs mean. Pure.
 *
 * A catalogue is made of the text of one or more files and answers for a line: which row of it
 * knows the line, whose fault that is, what to do, and about whom. Files are read in order; a later
 * one replaces rows of the earlier ones, by name or by what they match, and adds others. Nothing is
 * allocated after catalog_create(), and looking changes nothing.
 *
 * A file is lines of six columns with a tab between them; # begins a comment, empty lines are
 * skipped:
 *
 *     name  label  action  role  match  explanation
 *
 * name is [a-z0-9._-], at most 31 characters; label, action and role are words of signal.h; the
 * explanation is one sentence for people. match is one of
 *
 *     xid N                  a code of the NVIDIA driver; * for those that no row has
 *     xid N fatal|nonfatal   144-150, when no nvlink5 row knows the interrupt
 *     recovery N             Xid 154: the action that the driver asks for now, 0 none ... 5
 *     nvlink5 N V1 V2 S      144-150: the interrupt's 32 bits, - where they do not matter, as
 *                            drivers before R575 and since write them; S the error status or *
 *     sxid N                 a code of the NVSwitch driver
 *     sxid * fatal|nonfatal  one that no row has
 *     completion N           NCCL: a work completion with this status; * for the others
 *     watchdog [differs]     PyTorch: a collective that did not come back; two ranks named
 *                            different operations for one number
 *     oom group|node|* WORDS the kernel killed for a group's limit, for the node's memory, or for
 *                            either; words for the victim's name, with * at their end or alone
 *     kernel PATTERN         a line of the kernel log
 *     boot PATTERN           the same, in the first CATALOG_BOOT_MS since the kernel started
 *     output PATTERN         a line that a rank or its launcher printed
 *     agent PATTERN          a reading of an agent's probe
 *     any PATTERN            any of the three
 *
 * "off" in the place of the label takes a row of an earlier file out: name and off alone. Codes
 * come before patterns. Of several patterns (and oom words) that fit, the first one counts; rows
 * that a later file adds come before all earlier ones. line_pattern.h tells what a pattern is. */
#ifndef KEEPSTEP_AGENT_CATALOG_H
#define KEEPSTEP_AGENT_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"
#include "proto/base/signal.h"

enum {
    CATALOG_FILE_MAX = 1048576, /* bytes of one file */
    CATALOG_EXPLAIN_SIZE = 192, /* with the NUL */
    CATALOG_LOOK_MAX = 16384,   /* of a line: what is behind is not looked at */
    CATALOG_BOOT_MS = 300000,
    SIGNAL_PCI_SIZE = 20,       /* "0000:3b:00.0" */
    SIGNAL_OPERATION_SIZE = 24, /* "ALLREDUCE", "RECV" */
    SIGNAL_NO_CODE = INT32_MIN,
};

/* Where a line came from. A rank may print what it likes: kernel rows never match it. */
enum line_stream {
    STREAM_ANY,    /* nobody knows: every row may match */
    STREAM_KERNEL, /* /dev/kmsg, or a file that holds a kernel log */
    STREAM_OUTPUT, /* standard output and error of ranks and launchers */
    STREAM_AGENT,  /* readings of our own probes, in words */
};

/* What `code` of a signal is. */
enum signal_kind {
    SIGNAL_LINE,     /* by a pattern; code as the pattern says (an errno, a return code) or none */
    SIGNAL_XID,      /* the Xid */
    SIGNAL_RECOVERY, /* Xid 154: the recovery action, 0 none … 5 */
    SIGNAL_NVLINK5,  /* the Xid, 144-150, decoded */
    SIGNAL_SXID,     /* the SXid */
    SIGNAL_COMPLETION, /* NCCL: the status of the work completion; subject is the peer */
    SIGNAL_WATCHDOG,   /* PyTorch: a collective timed out; sequence and operation say which */
    SIGNAL_OOM,        /* the kernel killed for memory; subject is the victim's name */
};

/* What one line says. */
struct signal {
    char name[SIGNAL_NAME_SIZE]; /* of the row; "" when no row knows the line */
    uint8_t label;               /* enum signal_label */
    uint8_t advice;
    uint8_t role;
    uint8_t kind;                          /* enum signal_kind */
    int32_t code;                          /* SIGNAL_NO_CODE: none */
    int32_t previous;                      /* "caused by previous Xid N"; 0: not said */
    int32_t rank;                          /* that printed it, where the line says so; -1 */
    int32_t gpu;                           /* index on its node, where the line says so; -1 */
    int32_t link;                          /* NVLink; -1 */
    int64_t sequence;                      /* of the collective; -1 */
    char operation[SIGNAL_OPERATION_SIZE]; /* of the collective; "" */
    char pci[SIGNAL_PCI_SIZE]; /* of the device, as printed; of an Xid without function */
    /* What it is about, for counting lines that mean one thing: a PCI address (of Xid 13 with the
     * GPC and TPC), "mlx5_3:1", a server, a file system, a peer, a victim; "" when none. Of a
     * watchdog "seq=49 op=BROADCAST" and, where it is said, " pg=3". */
    char subject[SIGNAL_SUBJECT_SIZE];
    bool from_user;         /* a kmsg record that a program wrote: shown, never acted on */
    uint64_t kmsg_sequence; /* of a raw kmsg record; 0 */
    uint64_t kmsg_usec;
    const char *explain; /* borrowed from the catalogue; "" when no row knows the line */
};

struct catalog_limits {
    uint32_t rows;       /* of all files together, and of the one that is being read */
    uint32_t text_bytes; /* of all their matches and explanations, of replaced rows too */
    uint32_t keys;       /* of all patterns: one, or one for each text of a { } */
    uint32_t items;      /* of all patterns, of replaced rows too: each part of them is one */
};
void catalog_limits_default(struct catalog_limits *ret_limits);

struct catalog;

/* Empty. -EINVAL: a limit is zero or beyond what can be counted. */
MUST_CHECK int catalog_create(const struct catalog_limits *limits, struct catalog **ret_catalog);
struct catalog *catalog_free(struct catalog *catalog); /* takes NULL, gives NULL */

/* Reads one more file. -EINVAL (a line is wrong: err says origin, line, what, what to do), -ENOSPC
 * (a limit): then the catalogue is what it was before. */
MUST_CHECK int catalog_read(struct catalog *catalog, const char *origin, const char *bytes,
                            size_t size, struct err *err);

/* The files that come with Keepstep, which can only fail for limits that are too small. */
MUST_CHECK int catalog_read_shipped(struct catalog *catalog, struct err *err);

/* As catalog_read(), but keeps nothing: calls `problem` for each wrong line of a file, with a
 * sentence that begins with origin and line, and returns how many there were. */
typedef void catalog_problem(void *context, const char *text);
uint32_t catalog_check(struct catalog *catalog, const char *origin, const char *bytes, size_t size,
                       catalog_problem *problem, void *context);

/* One row, for printing; borrowed. */
struct catalog_row {
    const char *name;
    const char *match; /* its column, in one spelling */
    const char *explain;
    uint8_t label;
    uint8_t advice;
    uint8_t role;
};
uint32_t catalog_count(const struct catalog *catalog);
void catalog_row(const struct catalog *catalog, uint32_t index, struct catalog_row *ret_row);

/* What the line means: true when a row knows it, else label unknown, advice none, role noise, and
 * nothing in the other fields that counts. The
 * line is `size` bytes of anything, with or without its carrier (log_line.h) and newline; lines of
 * one message may be joined by "|" or newlines. */
bool catalog_look(const struct catalog *catalog, enum line_stream stream, const char *line,
                  size_t size, struct signal *ret_signal);

/* The signal as a fact of an agent: FACT_LOG (FACT_PROBE for an agent's reading), severity from
 * advice and role (0 for from_user), text = the line without carrier. The sender fills in job,
 * attempt, and what it knows better than the line: rank, gpu, port. */
void signal_fact(const struct signal *signal, enum line_stream stream, const char *line,
                 size_t size, struct fact *ret_fact);

#endif
