/* projection_job.c: jobs, their files, attempts, who holds which slot, where the time goes. */
#include "db/projection.h"
#include "proto/base/check.h"

static const struct projection_sql rows[] = {
    {RECORD_job_submitted_kind,
     "INSERT INTO jobs (job, name, user, revision, priority, tensor, context, pipeline, data, "
     "ranks_per_node, pool, state, state_wall_ms, reason, submitted_wall_ms) "
     "VALUES (:job, :name, :user, :revision, :priority, :tensor, :context, :pipeline, :data, "
     ":ranks_per_node, :pool, iif(:held_at_submit, 'held', 'pending'), :r_wall, '', :r_wall) "
     "ON CONFLICT DO UPDATE SET revision = :revision, priority = :priority, tensor = :tensor, "
     "context = :context, pipeline = :pipeline, data = :data, ranks_per_node = :ranks_per_node, "
     "pool = :pool"},
    {RECORD_job_submitted_kind,
     "INSERT INTO job_specs VALUES (:job, :revision, :r_seq, :r_wall, coalesce(:r_text, '')) "
     "ON CONFLICT DO UPDATE SET seq = :r_seq, wall_ms = :r_wall, text = coalesce(:r_text, '')"},
    {RECORD_job_moved_kind,
     "UPDATE jobs SET state = :to, state_wall_ms = :r_wall, reason = :reason, ended_wall_ms = "
     "iif(:to IN ('succeeded', 'failed', 'cancelled'), :r_wall, 0) WHERE job = :job"},
    {RECORD_job_moved_kind,
     "INSERT INTO job_log VALUES (:r_seq, :job, :r_wall, :from, :to, :reason)"},
    {RECORD_cancel_asked_kind, "UPDATE jobs SET cancelled_by = :actor WHERE job = :job"},
    {RECORD_hold_asked_kind, "UPDATE jobs SET held_by = iif(:on, :actor, NULL) WHERE job = :job"},
    {RECORD_rollback_approved_kind, "UPDATE jobs SET approved_by = :actor WHERE job = :job"},
    {RECORD_job_quarantined_kind, "UPDATE jobs SET quarantined = :text WHERE job = :job"},
    {RECORD_save_asked_kind,
     "UPDATE jobs SET save_request = :request, stop_request = :stop WHERE job = :job"},

    {RECORD_interval_chosen_kind,
     "INSERT INTO interval_log VALUES (:r_seq, :job, :r_wall, :interval_ms, :interval_saves, "
     ":interval_stall_ms, :interval_save_ms, :interval_failures, :interval_span_ms, "
     ":interval_gap_ms)"},
    {RECORD_reserve_chosen_kind,
     "INSERT INTO reserve_log VALUES (:r_seq, :job, :r_wall, :reserve_wanted, :reserve_losses, "
     ":reserve_span_ms, :reserve_gap_ms, :reserve_away_ms)"},
    {RECORD_spares_low_kind,
     "INSERT INTO spares_log VALUES (:r_seq, :job, :r_wall, :low, :ready, :wanted)"},

    {RECORD_attempt_made_kind,
     "INSERT INTO attempts (job, attempt, recovery, restore_step, restore_attempt, made_wall_ms) "
     "VALUES (:job, :attempt, :recovery, :restore_step, :restore_attempt, :r_wall) "
     "ON CONFLICT DO UPDATE SET recovery = :recovery, restore_step = :restore_step, "
     "restore_attempt = :restore_attempt, made_wall_ms = :r_wall"},
    {RECORD_attempt_made_kind,
     "UPDATE jobs SET attempt = :attempt, restore_step = :restore_step, approved_by = NULL, "
     "save_request = 0, stop_request = 0 WHERE job = :job"},
    {RECORD_attempt_made_kind, "UPDATE slots SET done = 0 WHERE job = :job AND done"},
    {RECORD_port_chosen_kind, "UPDATE attempts SET address = :address, port = :port "
                              "WHERE job = :job AND attempt = :attempt"},
    {RECORD_launch_ordered_kind, "UPDATE attempts SET launched_wall_ms = :r_wall "
                                 "WHERE job = :job AND attempt = :attempt"},
    {RECORD_attempt_ended_kind,
     "UPDATE attempts SET ended_wall_ms = :r_wall, ended_phase = :phase, stepped = :stepped, "
     "last_step = :step WHERE job = :job AND attempt = :attempt"},
    {RECORD_attempt_ended_kind, "UPDATE jobs SET stepped = 1 WHERE job = :job AND :stepped"},

    {RECORD_slot_taken_kind, "UPDATE slot_log SET to_wall_ms = :r_wall, to_seq = :r_seq "
                             "WHERE job = :job AND slot = :slot AND to_seq IS NULL"},
    {RECORD_slot_taken_kind,
     "INSERT INTO slot_log (job, slot, seq, node, from_node, attempt, why, from_wall_ms) "
     "VALUES (:job, :slot, :r_seq, :node, :from_node, :attempt, :why, :r_wall)"},
    {RECORD_slot_taken_kind,
     "INSERT INTO slots VALUES (:job, :slot, :node, :attempt, 0, :r_wall) ON CONFLICT DO UPDATE "
     "SET node = :node, attempt = :attempt, done = 0, since_wall_ms = :r_wall"},
    {RECORD_slot_left_kind, "UPDATE slot_log SET to_wall_ms = :r_wall, to_seq = :r_seq "
                            "WHERE job = :job AND slot = :slot AND to_seq IS NULL"},
    {RECORD_slot_left_kind,
     "UPDATE slots SET node = 0, since_wall_ms = :r_wall WHERE job = :job AND slot = :slot"},
    {RECORD_slot_done_kind, "UPDATE slots SET done = 1 WHERE job = :job AND slot = :slot"},

    {RECORD_time_settled_kind, "INSERT INTO job_times VALUES (:job, :kind, :ms) "
                               "ON CONFLICT DO UPDATE SET ms = min(ms + :ms, 9007199254740991)"},
    /* 0 used: progress has refilled all of the job's budgets. */
    {RECORD_budget_used_kind,
     "UPDATE budgets SET used = 0, changed_wall_ms = :r_wall WHERE job = :job AND :used = 0"},
    {RECORD_budget_used_kind,
     "INSERT INTO budgets VALUES (:job, :owner, :used, :no_progress, @signature, :r_wall) "
     "ON CONFLICT DO UPDATE SET used = :used, no_progress = :no_progress, "
     "signature = @signature, changed_wall_ms = :r_wall"},
};

const struct projection_table projection_job = {rows, ARRAY_SIZE(rows)};
