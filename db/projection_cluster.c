/* projection_cluster.c: the store itself, terms, automation, what people did, foreign ranks. */
#include "db/projection.h"
#include "proto/base/check.h"

static const struct projection_sql rows[] = {
    {RECORD_store_opened_kind,
     "INSERT INTO cluster (id, cluster_id, store_id, opened_wall_ms) "
     "VALUES (1, :cluster_id, :store_id, :r_wall) "
     "ON CONFLICT DO UPDATE SET cluster_id = :cluster_id, store_id = :store_id, "
     "opened_wall_ms = :r_wall"},
    {RECORD_term_began_kind, "UPDATE cluster SET term = :term"},
    {RECORD_term_began_kind, "INSERT INTO terms VALUES (:r_seq, :term, :r_wall, :away_ms)"},
    {RECORD_counters_adopted_kind, "UPDATE cluster SET term = max(term, :term)"},
    {RECORD_counters_adopted_kind,
     "UPDATE jobs SET attempt = max(coalesce(attempt, 0), :attempt), stop_request = 0 "
     "WHERE job = :job"},
    {RECORD_counters_adopted_kind,
     "INSERT INTO attempts (job, attempt, recovery, restore_step, restore_attempt, made_wall_ms) "
     "SELECT :job, :attempt, 0, 0, 0, :r_wall WHERE :job > 0 ON CONFLICT DO NOTHING"},
    {RECORD_automation_kind, "UPDATE cluster SET observe = :observe, paused = :paused, "
                             "paused_cause = :cause, automation_actor = :actor"},
    {RECORD_breaker_kind, "UPDATE cluster SET breaker_open = :open, breaker_suspects = :suspects, "
                          "breaker_limit = :limit"},
    {RECORD_acted_kind,
     "INSERT INTO actions VALUES (:r_seq, :r_wall, :r_subject, :actor, :verb, :reason, :result)"},
    {RECORD_foreign_seen_kind,
     "INSERT INTO foreign_ranks (node, job, attempt, term, seen_wall_ms) "
     "VALUES (:node, :job, :attempt, :term, :r_wall) ON CONFLICT DO NOTHING"},
    {RECORD_foreign_resolved_kind,
     "UPDATE foreign_ranks SET resolved_wall_ms = :r_wall, stopped = :stopped "
     "WHERE node = :node AND job = :job AND attempt = :attempt"},
};

const struct projection_table projection_cluster = {rows, ARRAY_SIZE(rows)};
