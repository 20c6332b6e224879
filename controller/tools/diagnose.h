/* diagnose.h: keepstep-diagnose, which `keepstep diagnose` starts: the catalogue and the judge on
 * files, without a controller. One file a verb. */
#ifndef KEEPSTEP_TOOLS_DIAGNOSE_H
#define KEEPSTEP_TOOLS_DIAGNOSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/catalog.h"
#include "proto/base/err.h"

enum diagnose_output { DIAGNOSE_TEXT, DIAGNOSE_JSON, DIAGNOSE_JSONL };
enum { DIAGNOSE_DONE = 0, DIAGNOSE_FAILED = 1, DIAGNOSE_USAGE = 2 };

struct diagnose_options {
    const char *file;    /* "-": standard input */
    const char *catalog; /* a site's own rows; NULL */
    const char *layout;  /* "8x16x128"; NULL */
    enum diagnose_output output;
    enum line_stream stream;
    bool known;   /* only lines that a row knows */
    bool verbose; /* why */
    bool help;
};

/* The words behind the verb, which is argv[0]. DIAGNOSE_DONE, or DIAGNOSE_USAGE after saying what
 * is wrong and what to do. */
int diagnose_parse(int argc, char **argv, struct diagnose_options *ret_options);

/* The shipped rows and the site's; freed with catalog_free(). */
MUST_CHECK int diagnose_catalog(const struct diagnose_options *options,
                                struct catalog **ret_catalog, struct err *err);

/* ---- diagnose_read.c ---- */
struct diagnose_line {
    const char *text; /* without its newline; borrowed until the next line */
    size_t size;
    uint64_t number;  /* from 1 */
    uint64_t dropped; /* bytes behind the first CATALOG_LOOK_MAX that were not kept */
};
/* What it returns ends the walk when it is not 0. */
typedef int diagnose_take(void *context, const struct diagnose_line *line);

/* Calls `take` for every line of the file, also for a last one that has no newline, and `idle` (may
 * be NULL) when what was there to read has been taken. Any bytes will do; a line costs no more
 * memory than CATALOG_LOOK_MAX. -errno with err, or what `take` returned. */
MUST_CHECK int diagnose_read(const char *file, diagnose_take *take, int (*idle)(void *context),
                             void *context, struct err *err);

/* ---- printing ---- */
/* Text of a file as it may stand in JSON and on a terminal: UTF-8, other bytes '?'. Owned by the
 * caller, who frees it with mem_free(). */
char *diagnose_mended(const char *text, size_t size);
/* What a signal tells, as the members of an object; the caller owns it. */
json_t *diagnose_signal(const struct signal *signal);
/* What could not even be begun is the caller's mistake, 2; else 0 or 1. r: 0 or -errno. */
int diagnose_exit(int r);
/* -EIO with err when standard output takes no more. */
MUST_CHECK int diagnose_flush(struct err *err);

/* ---- the verbs: argv[0] is the verb; the program's exit code ---- */
int diagnose_log(int argc, char **argv);
int diagnose_incident(int argc, char **argv);

#endif
