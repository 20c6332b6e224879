/* show.h: objects of the core as JSON: the same shape in lists, in single answers and in events.
 * Every function returns a new object (json_decref it). Units: *_seconds, *_ms, *_bytes; times are
 * RFC 3339 UTC. */
#ifndef KEEPSTEP_API_SHOW_H
#define KEEPSTEP_API_SHOW_H

#include <jansson.h>

#include "controller/core/state.h"

/* Any bytes as a JSON string: what is not UTF-8 (a sentence cut in the middle of a character, an
 * agent's own words) shows as U+FFFD. */
json_t *show_text(const char *text);
json_t *show_number(uint64_t value); /* at most 2^63 - 1 */
void show_set_text(json_t *object, const char *key, const char *text);
void show_set_number(json_t *object, const char *key, uint64_t value);
json_t *show_time(uint64_t wall_ms); /* null for 0 */
json_t *show_seconds(uint64_t ms);   /* a real with three decimals at most */
json_t *show_node_name(const struct core *core, uint32_t node); /* null when there is none */
json_t *show_layout(uint32_t tensor, uint32_t context, uint32_t pipeline, uint32_t data,
                    const char *order, uint32_t ranks_per_node);
json_t *show_times(const struct core *core, const struct job *job); /* accounting, by kind */
void show_event_times(json_t *events); /* adds `time` to rows of the store */
/* "r-0132", "R132", "132" -> 132; 0 when it is no id. */
uint32_t show_read_id(const char *text, char letter);
json_t *show_job(const struct core *core, const struct job *job);
/* One more of a job's conditions. */
void show_condition(json_t *list, const char *type, bool on, const char *reason,
                    const char *message);
json_t *show_interval(const struct core *core, const struct job *job); /* of saves, and its cost */
/* Those that the job keeps; spares: what core_spares() says of it. */
json_t *show_spares(const struct core_spares *spares, const struct job *job);
void show_add_protected(json_t *conditions, const struct core_spares *spares);
json_t *show_node(const struct core *core, const struct node *node);
json_t *show_service_time(const struct core *core, uint64_t service_ms); /* as wall time */
/* show_repair.c: parts of a node. */
json_t *show_repair(const struct core *core, const struct node *node);
json_t *show_validation(const struct core *core, const struct node *node);
json_t *show_barred(const struct core *core, const struct node *node); /* jobs that pass it over */
json_t *show_recovery(const struct core *core, const struct recovery *recovery);
json_t *show_incident(const struct core *core, const struct incident *incident);
/* Why its verdict is what it is (explain.c); null when there is none. */
json_t *explain_incident(const struct core *core, const struct incident *incident);
json_t *show_checkpoint(const struct checkpoint *checkpoint, const struct core *core);
/* The checkpoints that a recovery's plan passed over, newest first, each with its reason. */
json_t *show_skipped(const struct core *core, const struct recovery *recovery);
/* parts and missing_parts; a checkpoint that does not say (0) lacks nothing that is known. */
void show_set_parts(json_t *object, uint32_t parts);
/* Folded hostlist of nodes for which `test` holds. */
json_t *show_hostlist(const struct core *core,
                      bool (*test)(const struct core *, const struct node *, const void *),
                      const void *context, uint32_t *ret_count);

#endif
