/* job_spec.h: the job file: its keys, its checks, and what the core must know of it.
 *
 * One table of keys drives parsing, defaults, "did you mean" and the documentation. All problems of
 * a file are reported at once. The checked tree, defaults filled in, is what is stored and what
 * agents get; struct job_spec is the part that decisions rest on. */
#ifndef KEEPSTEP_API_JOB_SPEC_H
#define KEEPSTEP_API_JOB_SPEC_H

#include <jansson.h>

#include "controller/core/record.h"
#include "proto/base/config.h"

/* The table; count in *ret_count. Borrowed, static. */
const struct config_key *job_spec_keys(size_t *ret_count);

/* Reads a job file. On success *ret_tree is a new JSON object (json_decref it), which reads back as
 * itself and dumps (JOB_SPEC_DUMP) to less than SPEC_TEXT_MAX bytes, and *ret_spec is filled;
 * revision is 1, text_hash and held_at_submit are the caller's to set. submitter: the user who
 * stands in for run.user when the file has none; "" when nobody knows. -EINVAL with every problem
 * in the report; nothing is returned then. */
MUST_CHECK int job_spec_from_yaml(const char *text, size_t size, const char *submitter,
                                  json_t **ret_tree, struct job_spec *ret_spec,
                                  struct config_report *report);
/* The same for a tree that came as JSON; `json` is borrowed. */
MUST_CHECK int job_spec_from_json(const json_t *json, const char *submitter, json_t **ret_tree,
                                  struct job_spec *ret_spec, struct config_report *report);
/* How the tree is written when it is stored: one text for one content. */
#define JOB_SPEC_DUMP (JSON_COMPACT | JSON_SORT_KEYS)
/* The tree as people may see it: values of secret-looking environment keys are "***". New. */
json_t *job_spec_masked(const json_t *tree);

#endif
