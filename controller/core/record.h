/* record.h: the durable facts. The state of the controller is the fold of these and of nothing
 * else.
 *
 * A record is small, versioned and says what became true, never what came in. Each kind has one
 * list of fields here, from which the struct, the journal's JSON, the digest and the comparison are
 * made; to add a field, add a line (readers of older journals get 0 or "") and raise the kind's
 * version when its meaning changes. Kinds below 64 are facts; from 64 on are images: the whole
 * durable state of one object, written in a row as a snapshot and folded by replacing.
 *
 * All integers are JSON integers, enums are their words, texts are strings. Times: *_service_ms are
 * on service time (monotonic over restarts), *_wall_ms are wall time, for people. */
#ifndef KEEPSTEP_CORE_RECORD_H
#define KEEPSTEP_CORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/core/words.h"
#include "proto/base/message.h"

enum {
    SUBJECT_SIZE = 96, /* "node/NAME", "job/NAME", "recovery/r-0001" */
    ORDER_SIZE = 16,
    HOSTLIST_TEXT_SIZE = 512,
    EXIT_CODES_MAX = 8,
    BARRED_MAX = 4, /* jobs that do not take a node again: the last ones */
    RECORD_VERSION = 1,
};

/* Field types: X(S, type, name, argument). S is the kind that the list is expanded for; the
 * argument is a size for TEXT, a word set for WORD, a length for I32S and U64S, and 1 for the rest.
 */

/* What the core must know of a job file. The file's whole tree travels as the record's `text`. */
#define JOB_SPEC_FIELDS(X, S)                                                                      \
    X(S, TEXT, name, NAME_SIZE)                                                                    \
    X(S, TEXT, user, NAME_SIZE)                                                                    \
    X(S, U32, revision, 1)                                                                         \
    X(S, U32, priority, 1)                                                                         \
    X(S, U32, tensor, 1)                                                                           \
    X(S, U32, context, 1)                                                                          \
    X(S, U32, pipeline, 1)                                                                         \
    X(S, U32, data, 1)                                                                             \
    X(S, TEXT, order, ORDER_SIZE)                                                                  \
    X(S, U32, ranks_per_node, 1)                                                                   \
    X(S, TEXT, pool, NAME_SIZE)                                                                    \
    X(S, TEXT, exclude, HOSTLIST_TEXT_SIZE)                                                        \
    X(S, U32, reserve, 1)                                                                          \
    X(S, U32, min_ready, 1)                                                                        \
    X(S, WORD, on_exhausted, on_exhausted)                                                         \
    X(S, U32, min_data, 1)                                                                         \
    X(S, BOOL, save_on_drain, 1)                                                                   \
    X(S, U64, drain_wait_ms, 1)                                                                    \
    X(S, WORD, restore_policy, restore_policy)                                                     \
    X(S, U64, restore_fixed_step, 1)                                                               \
    X(S, U64, max_lost, 1)                                                                         \
    X(S, U32, stop_grace_ms, 1)                                                                    \
    X(S, U32, recovery_grace_ms, 1)                                                                \
    X(S, U32, retries_user, 1)                                                                     \
    X(S, U32, retries_unknown, 1)                                                                  \
    X(S, U32, no_progress_limit, 1)                                                                \
    X(S, U32, same_node_limit, 1)                                                                  \
    X(S, I32S, restart_codes, EXIT_CODES_MAX)                                                      \
    X(S, I32S, final_codes, EXIT_CODES_MAX)                                                        \
    X(S, U64, start_timeout_ms, 1)                                                                 \
    X(S, U64, init_timeout_ms, 1)                                                                  \
    X(S, U64, first_step_ms, 1)                                                                    \
    X(S, U64, step_timeout_ms, 1) /* 0 = auto */                                                   \
    X(S, U32, warmup_steps, 1)                                                                     \
    X(S, BOOL, watch_progress, 1)                                                                  \
    X(S, BOOL, held_at_submit, 1)                                                                  \
    X(S, WORD, reader, save_reader)  /* who tells which checkpoints are there */                   \
    X(S, U32, keep_last, 1)          /* 0 = nothing is ever removed */                             \
    X(S, U64, keep_every_ms, 1)      /* one for each such span stays too; 0 = none */              \
    X(S, WORD, log_steps, log_steps) /* whether steps are read from what ranks print */            \
    X(S, U64, save_interval_ms, 1)   /* 0 = the program's own */                                   \
    X(S, BOOL, save_auto, 1)         /* … is chosen here, and changes */                         \
    X(S, BOOL, reserve_auto, 1)      /* so is reserve */                                           \
    X(S, U64, text_hash, 1) /* of the file's tree: submitting the same again is no new job */

#define FACT_FIELDS(X, S)                                                                          \
    X(S, WORD, source, fact_source)                                                                \
    X(S, U32, severity, 1)                                                                         \
    X(S, U32, node, 1)                                                                             \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, I32, rank, 1)                                                                             \
    X(S, I32, gpu, 1)                                                                              \
    X(S, I32, port, 1)                                                                             \
    X(S, I32, code, 1)                                                                             \
    X(S, U64, receive_ms, 1)                                                                       \
    X(S, U64, sequence, 1) /* its agent's; 0: no agent said it */                                  \
    X(S, WORD, label, signal_label)                                                                \
    X(S, WORD, advice, signal_advice)                                                              \
    X(S, WORD, role, signal_role)                                                                  \
    X(S, TEXT, signal, SIGNAL_NAME_SIZE)                                                           \
    X(S, TEXT, subject, SIGNAL_SUBJECT_SIZE)                                                       \
    X(S, TEXT, text, TEXT_SIZE)

#define NODE_SESSION_FIELDS(X, S)                                                                  \
    X(S, TEXT, boot_id, BOOT_ID_SIZE)                                                              \
    X(S, U64, incarnation, 1)                                                                      \
    X(S, TEXT, address, ADDRESS_SIZE)                                                              \
    X(S, U32, peer_port, 1)                                                                        \
    X(S, TEXT, version, NAME_SIZE)                                                                 \
    X(S, TEXT, rack, NAME_SIZE)                                                                    \
    X(S, TEXT, feed, NAME_SIZE)                                                                    \
    X(S, TEXT, pool, NAME_SIZE)                                                                    \
    X(S, TEXT, pod, NAME_SIZE)                                                                     \
    X(S, TEXT, leaf, NAME_SIZE)                                                                    \
    X(S, U32, gpu_count, 1)                                                                        \
    X(S, U64, memory_bytes, 1)                                                                     \
    X(S, U64, inventory_hash, 1)

#define VERDICT_FIELDS(X, S)                                                                       \
    X(S, WORD, owner, fault_owner)                                                                 \
    X(S, WORD, action, job_action)                                                                 \
    X(S, WORD, lane, repair_lane)                                                                  \
    X(S, WORD, confidence, confidence)                                                             \
    X(S, BOOL, evict, 1)        /* the blamed leave, also where the budget makes the job wait */   \
    X(S, TEXT, rule, NAME_SIZE) /* which row of the judge's table */                               \
    X(S, U32, facts_used, 1)                                                                       \
    X(S, U32, blamed, 1)    /* nodes; each has a `blamed` record */                                \
    X(S, U64, signature, 1) /* equal for "the same failure again" */                               \
    X(S, TEXT, why, TEXT_SIZE)

/* How often a job saves, where its file says auto, and what that was concluded from. */
#define INTERVAL_FIELDS(X, S)                                                                      \
    X(S, U64, interval_ms, 1)                                                                      \
    X(S, U32, interval_saves, 1) /* measured; 0 = none yet, and stall and save are 0 */            \
    X(S, U64, interval_stall_ms, 1)                                                                \
    X(S, U64, interval_save_ms, 1)                                                                 \
    X(S, U32, interval_failures, 1) /* of the job, in interval_span_ms of running */               \
    X(S, U64, interval_span_ms, 1)                                                                 \
    X(S, U64, interval_gap_ms, 1) /* expected between two failures of the job */

/* How many spares a job keeps, where its file says auto, and what that was concluded from. */
#define RESERVE_FIELDS(X, S)                                                                       \
    X(S, U32, reserve_wanted, 1)                                                                   \
    X(S, U32, reserve_losses, 1) /* nodes that failures took, in reserve_span_ms of running */     \
    X(S, U64, reserve_span_ms, 1)                                                                  \
    X(S, U64, reserve_gap_ms, 1)  /* expected between two failures of one node */                  \
    X(S, U64, reserve_away_ms, 1) /* expected until a node that failed is back */

/* A node's repair. With state none: what the last one came to. */
#define REPAIR_FIELDS(X, S)                                                                        \
    X(S, WORD, repair, repair_state)                                                               \
    X(S, WORD, repair_lane, repair_lane)                                                           \
    X(S, WORD, repair_fault, fault_owner) /* whose fault it was that it mends */                   \
    X(S, U32, repair_incident, 1)         /* 0: of none that is known */                           \
    X(S, U32, repair_order, 1)    /* counts the hooks that were ordered for this node, ever */     \
    X(S, U32, repair_try, 1)      /* … and for this fault */                                     \
    X(S, U64, repair_fault_ms, 1) /* service time of the fault */                                  \
    X(S, TEXT, repair_text, TEXT_SIZE)

/* What the node must show before it may be used. */
#define VALIDATION_FIELDS(X, S)                                                                    \
    X(S, WORD, must_pass, validation)                                                              \
    X(S, BOOL, validate_asked, 1) /* by an operator: not only once no mark is left */              \
    X(S, BOOL, validate_spare, 1) /* it could be used when it was first to pass that */            \
    X(S, TEXT, validate_text, TEXT_SIZE)

/* ---- facts ------------------------------------------------------------------------------- */

#define RECORD_store_opened(X, S)                                                                  \
    X(S, TEXT, cluster_id, CLUSTER_ID_SIZE)                                                        \
    X(S, TEXT, store_id, CLUSTER_ID_SIZE)
#define RECORD_term_began(X, S)                                                                    \
    X(S, U64, term, 1)                                                                             \
    X(S, U64, away_ms, 1) /* by how much service time moved while no controller ran */
#define RECORD_node_joined(X, S)  X(S, U32, node, 1) X(S, TEXT, name, NAME_SIZE)
#define RECORD_node_session(X, S) X(S, U32, node, 1) X(S, BOOL, clean, 1) NODE_SESSION_FIELDS(X, S)
#define RECORD_node_moved(X, S)                                                                    \
    X(S, U32, node, 1)                                                                             \
    X(S, WORD, from, node_life)                                                                    \
    X(S, WORD, to, node_life)                                                                      \
    X(S, U64, away_ms, 1) /* back from a failure, after so long; 0 = it was none */
#define RECORD_node_lost(X, S)                                                                     \
    X(S, U32, node, 1) X(S, U64, incarnation, 1) X(S, WORD, how, lost_how)
#define RECORD_node_back(X, S)    X(S, U32, node, 1)
#define RECORD_node_removed(X, S) X(S, U32, node, 1)
#define RECORD_inventory_accepted(X, S)                                                            \
    X(S, U32, node, 1) X(S, U32, gpu_count, 1) X(S, U64, inventory_hash, 1)
#define RECORD_mark_set(X, S)                                                                      \
    X(S, U32, node, 1)                                                                             \
    X(S, WORD, owner, mark_owner)                                                                  \
    X(S, TEXT, code, NAME_SIZE)                                                                    \
    X(S, WORD, level, mark_level)                                                                  \
    X(S, WORD, when, leave_when)                                                                   \
    X(S, TEXT, actor, NAME_SIZE)                                                                   \
    X(S, U32, incident, 1)                                                                         \
    X(S, U32, job, 1) /* recovery/unproven: whose ranks are not proven gone */                     \
    X(S, U32, attempt, 1)                                                                          \
    X(S, BOOL, waived, 1)       /* … and a person vouches that nothing runs: see mark_waive() */ \
    X(S, U64, fact_sequence, 1) /* of the fact that set it, of the node's agent; 0: none did */    \
    X(S, WORD, lane, repair_lane) /* what mends that; none: nothing that a program could do */     \
    X(S, WORD, fault, fault_owner)                                                                 \
    X(S, TEXT, text, TEXT_SIZE)
#define RECORD_mark_cleared(X, S)                                                                  \
    X(S, U32, node, 1)                                                                             \
    X(S, WORD, owner, mark_owner)                                                                  \
    X(S, TEXT, code, NAME_SIZE)                                                                    \
    X(S, TEXT, actor, NAME_SIZE)                                                                   \
    X(S, TEXT, text, TEXT_SIZE)
#define RECORD_strike(X, S)                                                                        \
    X(S, U32, node, 1)                                                                             \
    X(S, U32, incident, 1)                                                                         \
    X(S, WORD, owner, fault_owner)                                                                 \
    X(S, U32, weight_milli, 1) /* of all its strikes now, each halved every 7 days */              \
    X(S, U32, job, 1)                                                                              \
    X(S, BOOL, barred, 1) /* the second of its kind in a day: that job does not take it again */   \
    X(S, WORD, must_pass, validation)
#define RECORD_job_submitted(X, S) X(S, U32, job, 1) JOB_SPEC_FIELDS(X, S)
#define RECORD_job_moved(X, S)                                                                     \
    X(S, U32, job, 1)                                                                              \
    X(S, WORD, from, job_state)                                                                    \
    X(S, WORD, to, job_state)                                                                      \
    X(S, TEXT, reason, TEXT_SIZE) /* held: what would unblock it; failed: why */
#define RECORD_cancel_asked(X, S) X(S, U32, job, 1) X(S, TEXT, actor, NAME_SIZE)
#define RECORD_attempt_made(X, S)                                                                  \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U32, recovery, 1)                                                                         \
    X(S, U64, restore_step, 1)                                                                     \
    X(S, U32, restore_attempt, 1)
#define RECORD_port_chosen(X, S)                                                                   \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U32, port, 1)                                                                             \
    X(S, TEXT, address, ADDRESS_SIZE)
#define RECORD_launch_ordered(X, S) X(S, U32, job, 1) X(S, U32, attempt, 1)
#define RECORD_slot_taken(X, S)                                                                    \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U32, slot, 1)                                                                             \
    X(S, U32, node, 1)                                                                             \
    X(S, U32, from_node, 1) /* 0 at the first launch */                                            \
    X(S, TEXT, why, NAME_SIZE)
#define RECORD_slot_left(X, S) X(S, U32, job, 1) X(S, U32, slot, 1) X(S, U32, node, 1)
#define RECORD_slot_done(X, S)                                                                     \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U32, slot, 1)                                                                             \
    X(S, U64, step, 1) /* the last that all its ranks had done */
#define RECORD_incident_opened(X, S)                                                               \
    X(S, U32, incident, 1)                                                                         \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, step, 1) /* the job's last completed step then */
#define RECORD_fact_kept(X, S) X(S, U32, incident, 1) FACT_FIELDS(X, S)
#define RECORD_verdict(X, S)   X(S, U32, incident, 1) VERDICT_FIELDS(X, S)
#define RECORD_blamed(X, S)    X(S, U32, incident, 1) X(S, U32, node, 1) X(S, I32, slot, 1)
#define RECORD_recovery_opened(X, S)                                                               \
    X(S, U32, recovery, 1)                                                                         \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1) /* the one that ends; for `start`: none yet */                           \
    X(S, U32, incident, 1)                                                                         \
    X(S, WORD, cause, cause)                                                                       \
    X(S, U64, since_service_ms, 1) /* when the fault began to show; `detect` starts here */
#define RECORD_recovery_merged(X, S)                                                               \
    X(S, U32, recovery, 1) X(S, U32, incident, 1) X(S, WORD, cause, cause)
#define RECORD_recovery_phase(X, S) X(S, U32, recovery, 1) X(S, WORD, phase, phase)
#define RECORD_recovery_plan(X, S)                                                                 \
    X(S, U32, recovery, 1)                                                                         \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, last_step, 1)                                                                        \
    X(S, U64, restore_step, 1)                                                                     \
    X(S, U64, lost_steps, 1)                                                                       \
    X(S, U32, moved_nodes, 1)                                                                      \
    X(S, U32, shifted_ranks, 1)                                                                    \
    X(S, U32, skipped, 1) /* newer checkpoints that were passed over */                            \
    X(S, U32, parts, 1)   /* of the one restored: enum checkpoint_part; 0 = not known */
#define RECORD_recovery_closed(X, S) X(S, U32, recovery, 1) X(S, WORD, outcome, outcome)
#define RECORD_checkpoint_moved(X, S)                                                              \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, step, 1)                                                                             \
    X(S, WORD, state, checkpoint_state)                                                            \
    X(S, U32, shards, 1)                                                                           \
    X(S, U32, parts, 1)                                                                            \
    X(S, U64, bytes, 1)                                                                            \
    X(S, U32, stall_ms, 1)                                                                         \
    X(S, U32, took_ms, 1)                                                                          \
    X(S, TEXT, hash, HASH_TEXT_SIZE)                                                               \
    X(S, TEXT, directory, PATH_SIZE)                                                               \
    X(S, TEXT, note, TEXT_SIZE)
#define RECORD_checkpoint_pinned(X, S)                                                             \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, step, 1)                                                                             \
    X(S, TEXT, pinned_by, NAME_SIZE) /* "" = not pinned any more */                                \
    X(S, TEXT, pinned_why, TEXT_SIZE)
/* Its folder is gone, by our doing: it was past what the job file keeps. */
#define RECORD_checkpoint_removed(X, S) X(S, U32, job, 1) X(S, U32, attempt, 1) X(S, U64, step, 1)
#define RECORD_budget_used(X, S)                                                                   \
    X(S, U32, job, 1)                                                                              \
    X(S, WORD, owner, fault_owner)                                                                 \
    X(S, U32, used, 1) /* after this one; 0 = refilled by progress */                              \
    X(S, U32, no_progress, 1)                                                                      \
    X(S, U64, signature, 1)                                                                        \
    X(S, U32, same_failure, 1)                                                                     \
    X(S, U32, other_no_progress, 1)
#define RECORD_time_settled(X, S)                                                                  \
    X(S, U32, job, 1)                                                                              \
    X(S, WORD, kind, time_kind)                                                                    \
    X(S, U64, until_service_ms, 1)                                                                 \
    X(S, U64, ms, 1)
#define RECORD_acted(X, S)                                                                         \
    X(S, TEXT, actor, NAME_SIZE)                                                                   \
    X(S, TEXT, verb, NAME_SIZE)                                                                    \
    X(S, TEXT, reason, TEXT_SIZE)                                                                  \
    X(S, TEXT, result, TEXT_SIZE)
#define RECORD_foreign_seen(X, S)                                                                  \
    X(S, U32, node, 1) X(S, U32, job, 1) X(S, U32, attempt, 1) X(S, U64, term, 1)
#define RECORD_foreign_resolved(X, S)                                                              \
    X(S, U32, node, 1) X(S, U32, job, 1) X(S, U32, attempt, 1) X(S, BOOL, stopped, 1)
#define RECORD_automation(X, S)                                                                    \
    X(S, BOOL, observe, 1)                                                                         \
    X(S, BOOL, paused, 1)                                                                          \
    X(S, TEXT, cause, TEXT_SIZE)                                                                   \
    X(S, TEXT, actor, NAME_SIZE)
#define RECORD_breaker(X, S)                                                                       \
    X(S, BOOL, open, 1)                                                                            \
    X(S, U32, suspects, 1)                                                                         \
    X(S, U32, limit, 1)                                                                            \
    X(S, BOOL, paged, 1) /* it has been open for so long that a person must look */
#define RECORD_save_asked(X, S) X(S, U32, job, 1) X(S, U32, request, 1) X(S, BOOL, stop, 1)
#define RECORD_hold_asked(X, S) X(S, U32, job, 1) X(S, BOOL, on, 1) X(S, TEXT, actor, NAME_SIZE)
/* An attempt is over (its stop was ordered, or it ended by itself): how far it had come. */
#define RECORD_attempt_ended(X, S)                                                                 \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, WORD, phase, phase)                                                                       \
    X(S, BOOL, stepped, 1)                                                                         \
    X(S, U64, step, 1)
/* An operator moved the counters past what agents report: the store was older than the world. */
#define RECORD_counters_adopted(X, S) X(S, U32, job, 1) X(S, U32, attempt, 1) X(S, U64, term, 1)
#define RECORD_job_quarantined(X, S)  X(S, U32, job, 1) X(S, TEXT, text, TEXT_SIZE)
/* The hook that cuts a node off was ordered, or has ended: only the mark recovery/unproven says
 * whether anything may still run there. */
#define RECORD_node_fence(X, S)        X(S, U32, node, 1) X(S, WORD, state, fence_state)
#define RECORD_rollback_approved(X, S) X(S, U32, job, 1) X(S, TEXT, actor, NAME_SIZE)

#define RECORD_repair_moved(X, S)                                                                  \
    X(S, U32, node, 1)                                                                             \
    X(S, BOOL, repaired, 1) /* none: by its checks, or by the word of who mended it */             \
    REPAIR_FIELDS(X, S)
#define RECORD_validation_set(X, S)                                                                \
    X(S, U32, node, 1)                                                                             \
    X(S, BOOL, forgiven, 1) /* by an operator: no job is barred from it any more */                \
    VALIDATION_FIELDS(X, S)

#define RECORD_interval_chosen(X, S) X(S, U32, job, 1) INTERVAL_FIELDS(X, S)
#define RECORD_reserve_chosen(X, S)  X(S, U32, job, 1) RESERVE_FIELDS(X, S)
/* The job has fewer ready spares than it is to have, or has enough again. */
#define RECORD_spares_low(X, S)                                                                    \
    X(S, U32, job, 1) X(S, BOOL, low, 1) X(S, U32, ready, 1) X(S, U32, wanted, 1)

/* ---- images ------------------------------------------------------------------------------ */

#define RECORD_image_core(X, S)                                                                    \
    X(S, TEXT, cluster_id, CLUSTER_ID_SIZE)                                                        \
    X(S, TEXT, store_id, CLUSTER_ID_SIZE)                                                          \
    X(S, U64, term, 1)                                                                             \
    X(S, U64, service_ms, 1) /* of the last record */                                              \
    X(S, U64, wall_ms, 1)                                                                          \
    X(S, U32, node_next, 1)                                                                        \
    X(S, U32, job_next, 1)                                                                         \
    X(S, U32, incident_next, 1)                                                                    \
    X(S, U32, recovery_next, 1)                                                                    \
    X(S, BOOL, observe, 1)                                                                         \
    X(S, BOOL, paused, 1)                                                                          \
    X(S, BOOL, breaker_open, 1)                                                                    \
    X(S, TEXT, paused_cause, TEXT_SIZE)                                                            \
    X(S, U64, resumed_service_ms, 1)  /* when a person last resumed automation */                  \
    X(S, U64, silenced_service_ms, 1) /* when the breaker for silence opened; 0 = it is closed */  \
    X(S, BOOL, silence_paged, 1)      /* … and it has been said that it stays open */            \
    X(S, U32, returns, 1)             /* of nodes that had failed */                               \
    X(S, U64, returns_ms, 1)          /* … how long they were away in all */
#define RECORD_image_node(X, S)                                                                    \
    X(S, U32, node, 1)                                                                             \
    X(S, TEXT, name, NAME_SIZE)                                                                    \
    X(S, WORD, life, node_life)                                                                    \
    X(S, U64, life_service_ms, 1)                                                                  \
    X(S, BOOL, removed, 1)                                                                         \
    X(S, BOOL, lost, 1)                                                                            \
    X(S, BOOL, clean, 1)                                                                           \
    X(S, WORD, lost_how, lost_how)                                                                 \
    X(S, WORD, fence, fence_state)                                                                 \
    X(S, U64, probation_service_ms, 1) /* until then the last choice as a spare; 0 = none */       \
    X(S, U32, accepted_gpus, 1)                                                                    \
    X(S, U64, accepted_hash, 1)                                                                    \
    X(S, U32, strikes, 1)                                                                          \
    X(S, U64, strike_service_ms, 1)                                                                \
    X(S, U32, strike_milli, 1) /* what they weighed then, in 1/1000 of one */                      \
    X(S, BOOL, struck, 1)      /* and it has not been usable since */                              \
    X(S, U32, job, 1)          /* whose slot it holds; 0 = none */                                 \
    X(S, U32, slot, 1)                                                                             \
    X(S, U64, fact_sequence, 1) /* of the last fact of its agent's that had an effect */           \
    X(S, U64S, struck_service_ms, fault_owner_count) /* the last strike of each kind; 0 = none */  \
    X(S, U64S, barred_jobs, BARRED_MAX)              /* that do not take it again; 0 = free */     \
    REPAIR_FIELDS(X, S)                                                                            \
    X(S, U64, repair_service_ms, 1) /* since when it is in that state */                           \
    VALIDATION_FIELDS(X, S)                                                                        \
    X(S, U64, validate_service_ms, 1) /* since when that is asked, or when it was passed */        \
    NODE_SESSION_FIELDS(X, S)
#define RECORD_image_mark(X, S)                                                                    \
    RECORD_mark_set(X, S) X(S, U64, since_service_ms, 1) X(S, U64, since_wall_ms, 1)
#define RECORD_image_job(X, S)                                                                         \
    X(S, U32, job, 1)                                                                                  \
    X(S, WORD, state, job_state)                                                                       \
    X(S, BOOL, cancelled, 1)                                                                           \
    X(S, BOOL, quarantined, 1)                                                                         \
    X(S, BOOL, launched, 1)  /* the current attempt's launch was ordered */                            \
    X(S, BOOL, ended, 1)     /* … and its stop was ordered */                                        \
    X(S, BOOL, attempted, 1) /* there is a current attempt */                                          \
    X(S, BOOL, approved, 1)  /* a rollback over max_lost was approved */                               \
    X(S, BOOL, hold_asked, 1)                                                                          \
    X(S, BOOL, stepped, 1)         /* a first step was seen, in any attempt */                         \
    X(S, U32, restore_failures, 1) /* in a row, of the present restore_step */                         \
    X(S, U32, attempt, 1)                                                                              \
    X(S, U32, recovery, 1)                                                                             \
    X(S, U32, incident, 1) /* the open one; 0 = none */                                                \
    X(S, U32, save_request, 1)                                                                         \
    X(S, BOOL, stop_request, 1)                                                                        \
    X(S, U64, stop_asked_service_ms, 1) /* since when; its save is waited for from then on */          \
    X(S, U64, save_asked_service_ms, 1) /* the last save; 0 = none in this attempt */                  \
    X(S, U64, restore_step, 1)                                                                         \
    X(S, U32, restore_attempt, 1)                                                                      \
    X(S, U32, port, 1)                                                                                 \
    X(S, TEXT, address, ADDRESS_SIZE)                                                                  \
    X(S, U32, used_user, 1)                                                                            \
    X(S, U32, used_unknown, 1)                                                                         \
    /* recoveries since a newer checkpoint: by verdict user or unknown, of one and the same failure  \
     * in a row, and by all other verdicts */ \
    X(S, U32, no_progress, 1)                                                                          \
    X(S, U32, same_failure, 1)                                                                         \
    X(S, U32, other_no_progress, 1)                                                                    \
    X(S, U64, signature, 1) /* of the last failure */                                                  \
    X(S, U64, submitted_service_ms, 1)                                                                 \
    X(S, U64, submitted_wall_ms, 1)                                                                    \
    X(S, U64, state_service_ms, 1)                                                                     \
    X(S, U64, settled_service_ms, 1) /* time up to here is booked */                                   \
    X(S, U64, last_step, 1)          /* that the last ended attempt had done */                        \
    X(S, U64S, time_ms, time_kind_count)                                                               \
    X(S, TEXT, reason, TEXT_SIZE)                                                                      \
    INTERVAL_FIELDS(X, S)                                                                              \
    RESERVE_FIELDS(X, S)                                                                               \
    X(S, U64, reserve_service_ms, 1) /* when it was chosen; 0 = it was not yet */                      \
    X(S, BOOL, spares_low, 1)                                                                          \
    JOB_SPEC_FIELDS(X, S)
#define RECORD_image_slot(X, S)                                                                    \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, slot, 1)                                                                             \
    X(S, U32, node, 1)                                                                             \
    X(S, U32, since_attempt, 1) /* the attempt at which this node took it */                       \
    X(S, BOOL, done, 1)                                                                            \
    X(S, U64, done_step, 1)
#define RECORD_image_checkpoint(X, S)                                                              \
    RECORD_checkpoint_moved(X, S) X(S, U64, at_service_ms, 1) X(S, U64, at_wall_ms, 1)             \
        X(S, TEXT, pinned_by, NAME_SIZE) X(S, TEXT, pinned_why, TEXT_SIZE)
#define RECORD_image_incident(X, S)                                                                \
    X(S, U32, incident, 1)                                                                         \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, step, 1)                                                                             \
    X(S, U32, first_blamed, 1) /* node id; 0 = none */                                             \
    X(S, BOOL, judged, 1)                                                                          \
    X(S, U64, opened_service_ms, 1)                                                                \
    X(S, U64, opened_wall_ms, 1)                                                                   \
    VERDICT_FIELDS(X, S)
#define RECORD_image_fact(X, S)   RECORD_fact_kept(X, S)
#define RECORD_image_blamed(X, S) RECORD_blamed(X, S)
#define RECORD_image_foreign(X, S)                                                                 \
    X(S, U32, node, 1)                                                                             \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, attempt, 1)                                                                          \
    X(S, U64, term, 1)                                                                             \
    X(S, BOOL, resolved, 1) /* an operator adopted them or had them stopped */                     \
    X(S, BOOL, stop, 1)
#define RECORD_image_recovery(X, S)                                                                \
    X(S, U32, recovery, 1)                                                                         \
    X(S, U32, job, 1)                                                                              \
    X(S, U32, incident, 1)                                                                         \
    X(S, WORD, cause, cause)                                                                       \
    X(S, WORD, outcome, outcome)                                                                   \
    X(S, WORD, phase, phase)                                                                       \
    X(S, U32, attempt, 1)     /* the one that ended */                                             \
    X(S, U32, attempt_new, 1) /* 0 until planned */                                                \
    X(S, BOOL, planned, 1)                                                                         \
    X(S, U64, opened_wall_ms, 1)                                                                   \
    X(S, U64, opened_service_ms, 1)                                                                \
    X(S, U64, closed_service_ms, 1)                                                                \
    X(S, U64S, phase_service_ms, phase_count) /* when each phase began; 0 = it did not */          \
    X(S, U64S, phase_ms, phase_count)         /* how long it took in all */                        \
    X(S, U64, last_step, 1)                                                                        \
    X(S, U64, restore_step, 1)                                                                     \
    X(S, U64, lost_steps, 1)                                                                       \
    X(S, U32, moved_nodes, 1)                                                                      \
    X(S, U32, shifted_ranks, 1)                                                                    \
    X(S, U32, merged, 1)  /* further incidents that this recovery took in */                       \
    X(S, U32, skipped, 1) /* newer checkpoints that the plan passed over */                        \
    X(S, U32, parts, 1)   /* of the one restored; 0 = not known */

/* Numbers are in journals for ever: never renumber. */
#define RECORD_KINDS(K)                                                                            \
    K(1, store_opened)                                                                             \
    K(2, term_began)                                                                               \
    K(3, node_joined)                                                                              \
    K(4, node_session)                                                                             \
    K(5, node_moved)                                                                               \
    K(6, node_lost)                                                                                \
    K(7, node_back)                                                                                \
    K(8, node_removed)                                                                             \
    K(9, inventory_accepted)                                                                       \
    K(10, mark_set)                                                                                \
    K(11, mark_cleared)                                                                            \
    K(12, strike)                                                                                  \
    K(13, job_submitted)                                                                           \
    K(14, job_moved)                                                                               \
    K(15, cancel_asked)                                                                            \
    K(16, attempt_made)                                                                            \
    K(17, port_chosen)                                                                             \
    K(18, launch_ordered)                                                                          \
    K(19, slot_taken)                                                                              \
    K(20, slot_left)                                                                               \
    K(21, slot_done)                                                                               \
    K(22, incident_opened)                                                                         \
    K(23, fact_kept)                                                                               \
    K(24, verdict)                                                                                 \
    K(25, blamed)                                                                                  \
    K(26, recovery_opened)                                                                         \
    K(27, recovery_merged)                                                                         \
    K(28, recovery_phase)                                                                          \
    K(29, recovery_plan)                                                                           \
    K(30, recovery_closed)                                                                         \
    K(31, checkpoint_moved)                                                                        \
    K(32, budget_used)                                                                             \
    K(33, time_settled)                                                                            \
    K(34, acted)                                                                                   \
    K(35, foreign_seen)                                                                            \
    K(36, foreign_resolved)                                                                        \
    K(37, automation)                                                                              \
    K(38, breaker)                                                                                 \
    K(39, save_asked)                                                                              \
    K(40, job_quarantined)                                                                         \
    K(41, rollback_approved)                                                                       \
    K(42, hold_asked)                                                                              \
    K(43, attempt_ended)                                                                           \
    K(44, counters_adopted)                                                                        \
    K(45, checkpoint_pinned)                                                                       \
    K(46, checkpoint_removed)                                                                      \
    K(47, node_fence)                                                                              \
    K(48, interval_chosen)                                                                         \
    K(49, reserve_chosen)                                                                          \
    K(50, spares_low)                                                                              \
    K(51, repair_moved)                                                                            \
    K(52, validation_set)                                                                          \
    K(64, image_core)                                                                              \
    K(65, image_node)                                                                              \
    K(66, image_mark)                                                                              \
    K(67, image_job)                                                                               \
    K(68, image_slot)                                                                              \
    K(69, image_checkpoint)                                                                        \
    K(70, image_incident)                                                                          \
    K(71, image_fact)                                                                              \
    K(72, image_blamed)                                                                            \
    K(73, image_recovery)                                                                          \
    K(74, image_foreign)

#define RECORD_C_U32(name, argument)           uint32_t name;
#define RECORD_C_I32(name, argument)           int32_t name;
#define RECORD_C_U64(name, argument)           uint64_t name;
#define RECORD_C_BOOL(name, argument)          bool name;
#define RECORD_C_WORD(name, argument)          uint8_t name;
#define RECORD_C_TEXT(name, argument)          char name[argument];
#define RECORD_C_I32S(name, argument)          int32_t name[argument];
#define RECORD_C_U64S(name, argument)          uint64_t name[argument];
#define RECORD_MEMBER(S, type, name, argument) RECORD_C_##type(name, argument)

/* Copies the fields of a list from *from to *to, two pointers that must be in scope. */
#define RECORD_COPY_U32(name, argument)      to->name = from->name;
#define RECORD_COPY_I32(name, argument)      to->name = from->name;
#define RECORD_COPY_U64(name, argument)      to->name = from->name;
#define RECORD_COPY_BOOL(name, argument)     to->name = from->name;
#define RECORD_COPY_WORD(name, argument)     to->name = from->name;
#define RECORD_COPY_TEXT(name, argument)     text_copy(to->name, argument, from->name);
#define RECORD_COPY_I32S(name, argument)     memcpy(to->name, from->name, sizeof to->name);
#define RECORD_COPY_U64S(name, argument)     memcpy(to->name, from->name, sizeof to->name);
#define RECORD_COPY(S, type, name, argument) RECORD_COPY_##type(name, argument)

struct job_spec {
    JOB_SPEC_FIELDS(RECORD_MEMBER, job_spec)
};

#define K(number, name)                                                                            \
    struct record_##name {                                                                         \
        RECORD_##name(RECORD_MEMBER, name)                                                         \
    };
RECORD_KINDS(K)
#undef K

enum record_kind {
#define K(number, name) RECORD_##name##_kind = number,
    RECORD_KINDS(K)
#undef K
};
enum { RECORD_FIRST_IMAGE = 64, RECORD_KIND_MAX = 74 };

/* What is set aside when a row of this kind cannot be used. */
enum record_owner {
    RECORD_OF_CLUSTER, /* nothing after it could be trusted */
    RECORD_OF_JOB,
    RECORD_OF_NODE,
    RECORD_OF_NOBODY, /* nothing rests on it: it is passed over */
};
enum record_owner record_owner(uint16_t kind);

/* What a person sees in `watch events`. A record with event "" is history but not an event. */
struct record_event {
    char type[32];    /* "NodeLost", "RecoveryStarted" …; "" = no event */
    uint8_t severity; /* enum severity_word */
    char message[TEXT_SIZE];
};

struct record {
    uint16_t kind; /* enum record_kind */
    uint16_t version;
    uint64_t sequence; /* the journal's; 0 until it is stored */
    uint64_t service_ms;
    uint64_t wall_ms;
    char subject[SUBJECT_SIZE];
    struct record_event event;
    uint32_t job; /* for the events' filters; 0 = none */
    uint32_t node;
    uint32_t recovery;
    /* job_submitted only: the job file's tree as JSON; borrowed from the event until the next step
     * (the store copies it). The cores never look at it. NULL otherwise. */
    const char *text;
    uint32_t text_size;
    union {
#define K(number, name) struct record_##name name;
        RECORD_KINDS(K)
#undef K
    } u;
};

/* ---- the field tables -------------------------------------------------------------------- */

enum record_type {
    FIELD_U32,
    FIELD_I32,
    FIELD_U64,
    FIELD_BOOL,
    FIELD_WORD,
    FIELD_TEXT,
    FIELD_I32S,
    FIELD_U64S,
};

struct record_field {
    const char *name;
    enum record_type type;
    uint32_t offset; /* in the kind's struct (record.u) */
    uint32_t size;   /* bytes of a TEXT; elements of I32S and U64S */
    const char *const *words;
    uint32_t word_count;
};

struct record_table {
    uint16_t kind;
    const char *name;
    const struct record_field *fields;
    uint32_t count;
    uint32_t size; /* of the kind's struct */
};

/* NULL for a kind that does not exist. Borrowed, static. */
const struct record_table *record_table(uint16_t kind);
const struct record_table *record_table_by_name(const char *name);
/* Folds kind, times and all fields (not sequence, not text's address) into a digest. */
uint64_t record_digest(uint64_t hash, const struct record *record);
/* The digest of a kind's body alone, as it stands in an object's durable part. */
uint64_t record_body_digest(uint64_t hash, uint16_t kind, const void *body);

#endif
