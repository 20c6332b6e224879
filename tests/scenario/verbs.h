/* verbs.h: what the files of a scenario's commands share; play.h is what the others see. */
#ifndef KEEPSTEP_TESTS_SCENARIO_VERBS_H
#define KEEPSTEP_TESTS_SCENARIO_VERBS_H

#include "tests/scenario/play.h"

/* ---- verb_words.c; -EINVAL with a sentence when a word means nothing ---- */
/* The value of `name=value` among the words, NULL when it is not there. */
const char *verb_option(const struct words *words, const char *name);
/* The same as a number; *value stays when it is not there. */
MUST_CHECK int verb_number(const struct words *words, const char *name, uint64_t *value,
                           struct err *err);
/* "n-0003", or "demo/2": whoever holds that slot now. */
MUST_CHECK int verb_node(struct play *play, const char *word, uint32_t *ret_index, struct err *err);
MUST_CHECK int verb_job(const struct play *play, const char *name, uint32_t *ret_job,
                        struct err *err);
MUST_CHECK int verb_word(const char *const *set, uint32_t count, const char *word,
                         uint8_t *ret_value, struct err *err);
void verb_reply(struct play *play, int32_t result); /* shows what a request was answered */

/* ---- verbs_requests.c ---- */
verb_run verb_submit;
verb_run verb_nodes_request;
verb_run verb_job_request;
verb_run verb_cluster_request;

#endif
