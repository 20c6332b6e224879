/* projection_node.c: nodes, their marks, and one log of everything that happened to each. */
#include "db/projection.h"
#include "proto/base/check.h"

/* A line of the log: what, and an SQL expression for the detail. */
#define LOG(what, detail)                                                                          \
    "INSERT INTO node_log (node, seq, wall_ms, what, detail) "                                     \
    "VALUES (:node, :r_seq, :r_wall, '" what "', " detail ")"

static const struct projection_sql rows[] = {
    {RECORD_node_joined_kind,
     "INSERT INTO nodes (node, name, life, life_wall_ms, joined_wall_ms) "
     "VALUES (:node, :name, 'joining', :r_wall, :r_wall) "
     "ON CONFLICT DO UPDATE SET name = :name, life = 'joining', life_wall_ms = :r_wall, "
     "joined_wall_ms = :r_wall, removed = 0, lost = 0, lost_how = '', clean = 0, boot_id = '', "
     "incarnation = '', accepted_gpus = 0, accepted_hash = '', strikes = 0, job = 0, slot = 0"},
    {RECORD_node_joined_kind, LOG("joined", ":name")},
    {RECORD_node_session_kind,
     "UPDATE nodes SET session_wall_ms = :r_wall, clean = :clean, boot_id = :boot_id, "
     "incarnation = @incarnation, address = :address, peer_port = :peer_port, "
     "version = :version, rack = :rack, feed = :feed, pool = :pool, pod = :pod, leaf = :leaf, "
     "gpu_count = :gpu_count, memory_bytes = :memory_bytes, inventory_hash = @inventory_hash "
     "WHERE node = :node"},
    {RECORD_node_session_kind,
     LOG("session", "'boot ' || :boot_id || ', version ' || :version || "
                    "iif(:clean, '', ', the boot before was not announced')")},
    {RECORD_node_moved_kind,
     "UPDATE nodes SET life = :to, life_wall_ms = :r_wall WHERE node = :node"},
    {RECORD_node_moved_kind,
     LOG("moved", "iif(:r_message = '', :from || ' -> ' || :to, :r_message)")},
    {RECORD_node_lost_kind, "UPDATE nodes SET lost = 1, lost_how = :how WHERE node = :node"},
    {RECORD_node_lost_kind, LOG("lost", ":how")},
    {RECORD_node_back_kind, "UPDATE nodes SET lost = 0 WHERE node = :node"},
    {RECORD_node_back_kind, LOG("back", ":r_message")},
    {RECORD_node_removed_kind, "UPDATE nodes SET removed = 1, lost = 0 WHERE node = :node"},
    {RECORD_node_removed_kind, LOG("removed", ":r_message")},
    {RECORD_node_fence_kind, LOG("fence", ":state")},
    {RECORD_repair_moved_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, incident) "
     "VALUES (:node, :r_seq, :r_wall, 'repair', :repair || iif(:repair_lane = 'none', '', ', ' || "
     ":repair_lane) || iif(:repair_text = '', '', ': ' || :repair_text), :repair_incident)"},
    {RECORD_validation_set_kind,
     LOG("validation", "iif(:must_pass = 'none', '', 'to pass: ' || :must_pass || ', ') || "
                       ":validate_text")},
    {RECORD_inventory_accepted_kind,
     "UPDATE nodes SET accepted_gpus = :gpu_count, accepted_hash = @inventory_hash "
     "WHERE node = :node"},
    {RECORD_inventory_accepted_kind, LOG("inventory", "'accepted: ' || :gpu_count || ' GPUs'")},
    {RECORD_mark_set_kind,
     "INSERT INTO marks VALUES (:node, :owner, :code, :level, :when, :actor, :incident, :job, "
     ":attempt, :text, :r_wall) ON CONFLICT DO UPDATE SET level = :level, leave_when = :when, "
     "actor = :actor, incident = :incident, job = :job, attempt = :attempt, text = :text"},
    {RECORD_mark_set_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, actor, job, incident) "
     "VALUES (:node, :r_seq, :r_wall, 'mark', :owner || '/' || :code || ' (' || :level || '): ' "
     "|| :text, :actor, :job, :incident)"},
    {RECORD_mark_cleared_kind,
     "DELETE FROM marks WHERE node = :node AND owner = :owner AND code = :code"},
    {RECORD_mark_cleared_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, actor) "
     "VALUES (:node, :r_seq, :r_wall, 'unmark', :owner || '/' || :code || "
     "iif(:text = '', '', ': ' || :text), :actor)"},
    {RECORD_strike_kind, "INSERT INTO strikes VALUES (:r_seq, :node, :incident, :owner, :r_wall)"},
    {RECORD_strike_kind, "UPDATE nodes SET strikes = strikes + 1 WHERE node = :node"},
    {RECORD_strike_kind, "INSERT INTO node_log (node, seq, wall_ms, what, detail, incident) "
                         "VALUES (:node, :r_seq, :r_wall, 'strike', :owner, :incident)"},
    {RECORD_fact_kept_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, job, incident) "
     "SELECT :node, :r_seq, :r_wall, 'fact', :source || iif(:text = '', '', ': ' || :text), :job, "
     ":incident WHERE :node > 0"},
    {RECORD_blamed_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, job, slot, incident) "
     "VALUES (:node, :r_seq, :r_wall, 'blamed', "
     "coalesce((SELECT why FROM incidents WHERE incident = :incident), ''), :r_job, "
     "nullif(:slot, -1), :incident)"},
    {RECORD_slot_taken_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, job, slot) "
     "VALUES (:node, :r_seq, :r_wall, 'slot taken', 'attempt ' || :attempt || "
     "iif(:why = '', '', ': ' || :why), :job, :slot)"},
    {RECORD_slot_taken_kind, "UPDATE nodes SET job = :job, slot = :slot WHERE node = :node"},
    {RECORD_slot_left_kind,
     "INSERT INTO node_log (node, seq, wall_ms, what, detail, job, slot) "
     "VALUES (:node, :r_seq, :r_wall, 'slot left', :r_message, :job, :slot)"},
    {RECORD_slot_left_kind,
     "UPDATE nodes SET job = 0, slot = 0 WHERE node = :node AND job = :job AND slot = :slot"},
};

const struct projection_table projection_node = {rows, ARRAY_SIZE(rows)};
