/* cli.h: what the verbs of `keepstep` share: the command line, the connection, tables, plans.
 *
 * The CLI is a client of the REST API and of nothing else. One file a verb (or a family of verbs);
 * each verb is a row in verbs.c's table; exit codes are the same for all. What was asked
 * for goes to stdout, everything else to stderr. */
#ifndef KEEPSTEP_CLI_CLI_H
#define KEEPSTEP_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_SUCH = 3,
    EXIT_CHANGED = 4,
    EXIT_DENIED = 5,
    EXIT_UNREACHABLE = 6,
    EXIT_TIMEOUT = 7,
    EXIT_REFUSED = 8,
    EXIT_WOULD_CHANGE = 10,
    EXIT_JOB_FAILED = 20,
    EXIT_JOB_CANCELLED = 21,
    EXIT_JOB_HELD = 23,
    EXIT_INTERRUPTED = 130, /* Ctrl-C before what was waited for */
};

enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_NAME };

enum { ARGUMENTS_MAX = 64, CLI_PATH_MAX = 65536, CLI_BODY_MAX = 1 << 20 };

/* The parsed command line. Texts are borrowed from the arguments. */
struct cli {
    const char *server; /* "unix:/path" or "http://host:port" */
    const char *token_file;
    enum output output;
    bool yes;
    bool no_input;
    bool dry_run;
    bool quiet;
    bool follow;
    bool all;
    bool problems;
    bool hold;
    bool wait;
    bool accept_inventory;
    bool skip_validation;
    bool after_checkpoint;
    bool help;
    bool hush; /* while connections are tried again: no line for each failure */
    const char *reason;
    const char *when;
    const char *clear;
    const char *state;
    const char *user;
    const char *job;
    const char *node;
    const char *since;
    const char *since_revision;
    const char *subject; /* --for */
    const char *type;
    const char *severity;
    const char *timeout;
    const char *limit;
    const char *rank;
    const char *attempt;
    const char *tail;
    const char *level;
    uint64_t flags; /* which were given, by index in flags.c's table */
    uint32_t count; /* words, the verb first */
    const char *words[ARGUMENTS_MAX];
    struct client *client;
};

/* ---- flags.c ---- */
/* Fills cli from the arguments; EXIT_USAGE after saying what is wrong. */
int flags_parse(struct cli *cli, int count, char **arguments);
/* EXIT_USAGE when a flag was given that the verb does not take; takes is "reason|when". */
int flags_check(const struct cli *cli, const char *verb, const char *takes);

/* ---- verbs.c ---- */
typedef int cli_verb(struct cli *cli);
struct verb {
    const char *name;
    cli_verb *call;
    const char *form; /* the words after the name */
    const char *doc;
    const char *flags;    /* that it takes, "a|b", besides the global ones */
    const char *examples; /* one a line */
};
const struct verb *verbs_find(const char *name); /* NULL after saying so */
const struct verb *verbs_all(size_t *ret_count);

/* ---- tool.c ---- */
/* Verbs that are programs of their own: simulate, diagnose. */
bool tool_has(const char *verb);
/* Becomes the program of the verb, which is the first of these words; NULL ends them. Returns when
 * it cannot. */
int tool_start(char **arguments);

/* ---- client.c ---- */
struct answer {
    long status;  /* HTTP's */
    json_t *json; /* owned; NULL when the body was no JSON */
    struct buf body;
};
/* Asks once. body may be NULL. EXIT_UNREACHABLE after saying so when nobody answered; else 0 and
 * the answer, whatever its status (answer_done it). */
int client_send(struct cli *cli, const char *method, const char *path, const char *type,
                const char *body, size_t size, struct answer *ret_answer);
/* The same for a GET that must succeed: a problem is said, and its exit code returned. */
int client_get(struct cli *cli, const char *path, struct answer *ret_answer);
void answer_done(struct answer *answer);
MUST_CHECK int client_create(struct cli *cli, struct err *err);
struct client *client_free(struct client *client);
/* Adds name=value to a path's query, escaped. NULL or "" value: nothing is added. */
void path_add(struct buf *path, const char *name, const char *value);
void path_part(struct buf *path, const char *text); /* one escaped segment */
/* "/v1/jobs/" + escaped name + "/layout" into path, which is initialised here. */
void path_start(struct buf *path, const char *prefix, const char *name, const char *suffix);
/* client_get of such a path; path is done then. */
int path_get(struct cli *cli, struct buf *path, struct answer *ret_answer);

/* ---- stream.c ---- */
enum {
    STREAM_ENDED = 200, /* by the controller, or the connection was lost: ask again */
    STREAM_INTERRUPTED, /* Ctrl-C */
    STREAM_VISITED,     /* a visitor's usual word for "enough" */
};
/* Called for each line, and with NULL about once a second. Non-zero ends the stream and is
 * returned. */
typedef int client_line(const char *line, size_t size, void *context);
/* Reads a stream of JSON lines. An exit code after saying why when it was refused. */
int client_stream(struct cli *cli, const char *path, client_line *visit, void *context);

/* ---- table.c ---- */
enum { COLUMNS_MAX = 16 };
struct table {
    uint32_t columns;
    uint32_t cells;
    const char *heads[COLUMNS_MAX];
    bool right[COLUMNS_MAX]; /* numbers */
    struct buf text;         /* of all cells, each with its NUL */
};
/* A head that begins with '>' is of numbers. heads are borrowed until table_print. */
void table_init(struct table *table, uint32_t columns, const char *const *heads);
void table_cell(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));              /* short ones */
void table_text(struct table *table, const char *text); /* of any length */
/* A member of an object as a cell: numbers with thousands separators, "-" for what is not there. */
void table_member(struct table *table, const json_t *object, const char *key);
void table_print(struct table *table); /* to stdout, then done */

/* ---- value.c: members of answers as text. Targets are given with their size and returned. ---- */
const char *member(const json_t *object, const char *key); /* borrowed; "" when it is no text */
long long number(const json_t *object, const char *key);
bool truth(const json_t *object, const char *key);
const char *text_of(const json_t *object, const char *key, char *target, size_t size);
const char *ago_of(const json_t *object, const char *key, char *target, size_t size);
/* "81 ms", "12.1 s", "4m10s"; "" for 0 and what is no number. */
const char *seconds_of(const json_t *object, const char *key, char *target, size_t size);
void count_format(uint64_t value, char *target, size_t size);          /* 184,223 */
const char *plural(uint64_t count, const char *one, const char *many); /* the word that fits */
const char *harmless(const char *text, char *target, size_t size);     /* no control characters */
/* A hostlist as people like it: the name of one node, "7 nodes (gpu-[…])" of more. */
void nodes_format(const char *folded, uint64_t count, char *target, size_t size);

/* ---- say.c ---- */
int say_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says a problem+json with its hint and errors; returns the exit code it means. */
int say_problem(const struct answer *answer, const char *file);
/* -o json and jsonl: prints the body as it came, or its items one a line, and returns true. */
bool say_json(const struct cli *cli, const struct answer *answer);
/* "Follow it:  keepstep watch job demo", the label padded. Nothing with -q. */
void say_next(const struct cli *cli, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- change.c: changes are shown before they are made ---- */
struct change {
    const char *method;
    const char *path; /* without dry_run */
    const char *type; /* of the body */
    const char *body;
    size_t size;
    const char *file; /* for problems; NULL: none */
    /* "Drain?" is asked on a terminal when the dry run's answer says that it matters; NULL, or a
     * NULL answer: nothing is asked. */
    const char *(*question)(const struct cli *cli, const json_t *answer);
    void (*show_plan)(const struct cli *cli, const json_t *answer); /* NULL: nothing to show */
};
/* Sends it; with --dry-run only as one. 0 and the answer (a success), or an exit code after saying
 * why. */
int change_send(struct cli *cli, const struct change *change, struct answer *ret_answer);
/* Shows the plan and asks, where that is needed: 0 = go on, else the exit code. */
int change_confirm(struct cli *cli, const struct change *change);
/* A JSON body (taken) as text, owned. NULL after saying that it is too long. */
char *change_body(json_t *json, size_t *ret_size);
/* 10 when a dry run would change something, else 0. */
int change_code(const struct cli *cli, const struct answer *answer);

/* ---- get.c ---- */
void print_recoveries(const struct cli *cli, const json_t *items);

/* ---- job_action.c ---- */
/* POSTs the reason to /v1/jobs/JOB + suffix, shows plan and result; an exit code. */
int job_act(struct cli *cli, const char *job, const char *suffix);
const char *job_name(const char *word); /* "job/demo" and "demo" are the same; borrowed */

/* ---- watch.c ---- */
/* Follows a job until it is over (or `until`: running, succeeded, step=N, is reached); the exit
 * code of `wait`. */
int follow_job(struct cli *cli, const char *job, const char *until, uint64_t timeout_ms,
               bool show_events);

/* ---- the verbs ---- */
cli_verb verb_submit, verb_get, verb_describe, verb_watch, verb_wait, verb_logs, verb_node_action,
    verb_job_action, verb_checkpoint, verb_recover, verb_layout, verb_where, verb_status,
    verb_automation, verb_admin, verb_version, verb_goodput, verb_explain, verb_tool, verb_help;

#endif
