/* projection_recovery.c: incidents with their facts and verdicts, recoveries with their phases,
 * checkpoints. */
#include "db/projection.h"
#include "proto/base/check.h"

#define END_PHASE                                                                                  \
    "UPDATE phases SET ended_wall_ms = :r_wall, ms = max(:r_service - started_service_ms, 0) "     \
    "WHERE recovery = :recovery AND ms IS NULL"

static const struct projection_sql rows[] = {
    {RECORD_incident_opened_kind,
     "INSERT INTO incidents (incident, job, attempt, step, opened_wall_ms) "
     "VALUES (:incident, :job, :attempt, :step, :r_wall) ON CONFLICT DO NOTHING"},
    {RECORD_fact_kept_kind,
     "INSERT INTO facts VALUES (:r_seq, :incident, :r_wall, :source, :severity, :node, :job, "
     ":attempt, :rank, :gpu, :port, :code, :receive_ms, :text)"},
    {RECORD_verdict_kind,
     "UPDATE incidents SET judged_wall_ms = :r_wall, owner = :owner, action = :action, "
     "lane = :lane, confidence = :confidence, rule = :rule, facts_used = :facts_used, "
     "blamed = :blamed, signature = @signature, why = :why WHERE incident = :incident"},
    /* The first fact opened the recovery; only now it is known what it was about. */
    {RECORD_verdict_kind,
     "UPDATE recoveries SET cause = iif(:owner = 'planned', 'planned', 'node') "
     "WHERE incident = :incident AND outcome = 'open' AND :evict"},
    {RECORD_blamed_kind, "INSERT INTO blamed VALUES (:incident, :node, :slot, :r_seq) "
                         "ON CONFLICT DO UPDATE SET slot = :slot, seq = :r_seq"},

    /* `detect` began with the first sign, before this record. */
    {RECORD_recovery_opened_kind,
     "INSERT INTO recoveries (recovery, job, incident, cause, phase, attempt, opened_wall_ms, "
     "opened_service_ms) VALUES (:recovery, :job, :incident, :cause, 'detect', :attempt, "
     "max(:r_wall - max(:r_service - :since_service_ms, 0), 0), "
     "min(:since_service_ms, :r_service)) ON CONFLICT DO NOTHING"},
    {RECORD_recovery_opened_kind,
     "INSERT INTO phases (recovery, seq, phase, started_wall_ms, started_service_ms) "
     "VALUES (:recovery, :r_seq, 'detect', "
     "max(:r_wall - max(:r_service - :since_service_ms, 0), 0), "
     "min(:since_service_ms, :r_service))"},
    {RECORD_recovery_opened_kind, "UPDATE jobs SET recovery = :recovery WHERE job = :job"},
    /* The stronger cause is the one to show: something broke while a change was under way. */
    {RECORD_recovery_merged_kind,
     "UPDATE recoveries SET merged = merged + 1, incident = :incident, "
     "cause = iif(cause IN ('planned', 'start'), :cause, cause) WHERE recovery = :recovery"},
    {RECORD_recovery_phase_kind, END_PHASE},
    {RECORD_recovery_phase_kind,
     "INSERT INTO phases (recovery, seq, phase, started_wall_ms, started_service_ms) "
     "VALUES (:recovery, :r_seq, :phase, :r_wall, :r_service)"},
    {RECORD_recovery_phase_kind, "UPDATE recoveries SET phase = :phase WHERE recovery = :recovery"},
    /* A failure in the middle plans again: what each plan costs adds up. */
    {RECORD_recovery_plan_kind,
     "UPDATE recoveries SET attempt_new = :attempt, last_step = :last_step, "
     "restore_step = :restore_step, "
     "lost_steps = min(lost_steps + :lost_steps, 9007199254740991), "
     "moved_nodes = moved_nodes + :moved_nodes, shifted_ranks = shifted_ranks + :shifted_ranks, "
     "skipped = :skipped, parts = :parts "
     "WHERE recovery = :recovery"},
    {RECORD_recovery_closed_kind, END_PHASE},
    {RECORD_recovery_closed_kind,
     "UPDATE recoveries SET outcome = :outcome, closed_wall_ms = :r_wall, "
     "took_ms = max(:r_service - opened_service_ms, 0) WHERE recovery = :recovery"},
    {RECORD_recovery_closed_kind, "UPDATE jobs SET recovery = 0 WHERE recovery = :recovery"},
    {RECORD_recovery_closed_kind,
     "UPDATE jobs SET stepped = 1 WHERE :outcome = 'recovered' AND job = "
     "(SELECT job FROM recoveries WHERE recovery = :recovery)"},

    {RECORD_checkpoint_moved_kind,
     "INSERT INTO checkpoints (job, attempt, step, state, shards, parts, bytes, stall_ms, took_ms, "
     "hash, directory, note, began_wall_ms, changed_wall_ms) "
     "VALUES (:job, :attempt, :step, :state, :shards, :parts, :bytes, "
     ":stall_ms, :took_ms, :hash, :directory, :note, :r_wall, :r_wall) "
     "ON CONFLICT DO UPDATE SET state = :state, shards = :shards, parts = :parts, "
     "bytes = :bytes, stall_ms = :stall_ms, took_ms = :took_ms, hash = :hash, "
     "directory = :directory, note = :note, changed_wall_ms = :r_wall, removed_wall_ms = 0"},
    {RECORD_checkpoint_pinned_kind,
     "UPDATE checkpoints SET pinned_by = :pinned_by, pinned_why = :pinned_why "
     "WHERE job = :job AND attempt = :attempt AND step = :step"},
    {RECORD_checkpoint_removed_kind, "UPDATE checkpoints SET removed_wall_ms = :r_wall "
                                     "WHERE job = :job AND attempt = :attempt AND step = :step"},
};

const struct projection_table projection_recovery = {rows, ARRAY_SIZE(rows)};
