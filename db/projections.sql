-- projections.sql: what the journal means, as tables for questions. All of it can be dropped and
-- folded again (keepstep-controller --rebuild).
--
-- Ids are those of the records; names are in `nodes` and `jobs`; the views at the end have the
-- names. Times: *_wall_ms are milliseconds since 1970 UTC, the views show them in the local time of
-- whoever asks (TZ=UTC sqlite3 … for UTC). There are no foreign keys: a projection must never
-- refuse a fact, and parents are not always there (facts of no job, nodes that were forgotten).

CREATE TABLE cluster (
    id                INTEGER PRIMARY KEY CHECK (id = 1),
    cluster_id        TEXT    NOT NULL,
    store_id          TEXT    NOT NULL,
    opened_wall_ms    INTEGER NOT NULL,
    term              INTEGER NOT NULL DEFAULT 0,
    observe           INTEGER NOT NULL DEFAULT 0,
    paused            INTEGER NOT NULL DEFAULT 0,
    paused_cause      TEXT    NOT NULL DEFAULT '',
    automation_actor  TEXT    NOT NULL DEFAULT '',
    breaker_open      INTEGER NOT NULL DEFAULT 0,
    breaker_suspects  INTEGER NOT NULL DEFAULT 0,
    breaker_limit     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Each start of a controller.
CREATE TABLE terms (
    seq     INTEGER PRIMARY KEY,
    term    INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    away_ms INTEGER NOT NULL -- how long no controller ran
) STRICT;

CREATE TABLE nodes (
    node            INTEGER PRIMARY KEY,
    name            TEXT    NOT NULL,
    life            TEXT    NOT NULL,
    life_wall_ms    INTEGER NOT NULL,
    joined_wall_ms  INTEGER NOT NULL,
    session_wall_ms INTEGER NOT NULL DEFAULT 0,
    removed         INTEGER NOT NULL DEFAULT 0,
    lost            INTEGER NOT NULL DEFAULT 0,
    lost_how        TEXT    NOT NULL DEFAULT '',
    clean           INTEGER NOT NULL DEFAULT 0, -- the last boot was announced
    boot_id         TEXT    NOT NULL DEFAULT '',
    incarnation     TEXT    NOT NULL DEFAULT '', -- 64 bits, as digits
    address         TEXT    NOT NULL DEFAULT '',
    peer_port       INTEGER NOT NULL DEFAULT 0,
    version         TEXT    NOT NULL DEFAULT '',
    rack            TEXT    NOT NULL DEFAULT '',
    feed            TEXT    NOT NULL DEFAULT '',
    pool            TEXT    NOT NULL DEFAULT '',
    pod             TEXT    NOT NULL DEFAULT '',
    leaf            TEXT    NOT NULL DEFAULT '',
    gpu_count       INTEGER NOT NULL DEFAULT 0,
    memory_bytes    INTEGER NOT NULL DEFAULT 0,
    inventory_hash  TEXT    NOT NULL DEFAULT '',
    accepted_gpus   INTEGER NOT NULL DEFAULT 0,
    accepted_hash   TEXT    NOT NULL DEFAULT '',
    strikes         INTEGER NOT NULL DEFAULT 0, -- ever, without decay
    job             INTEGER NOT NULL DEFAULT 0, -- whose slot it holds
    slot            INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX nodes_name ON nodes (name);

-- The marks there are now; those of the past are in node_log.
CREATE TABLE marks (
    node          INTEGER NOT NULL,
    owner         TEXT    NOT NULL,
    code          TEXT    NOT NULL,
    level         TEXT    NOT NULL,
    leave_when    TEXT    NOT NULL,
    actor         TEXT    NOT NULL,
    incident      INTEGER NOT NULL,
    job           INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    text          TEXT    NOT NULL,
    since_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (node, owner, code)
) STRICT, WITHOUT ROWID;

-- Everything that happened to a node: sessions, moves, losses, marks, facts, blame, slots, repairs
-- and the checks that it had to pass.
CREATE TABLE node_log (
    node     INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    wall_ms  INTEGER NOT NULL,
    what     TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    actor    TEXT    NOT NULL DEFAULT '',
    job      INTEGER NOT NULL DEFAULT 0,
    slot     INTEGER,
    incident INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (node, seq, what)
) STRICT, WITHOUT ROWID;

CREATE TABLE strikes (
    seq      INTEGER PRIMARY KEY,
    node     INTEGER NOT NULL,
    incident INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    wall_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE jobs (
    job               INTEGER PRIMARY KEY,
    name              TEXT    NOT NULL,
    user              TEXT    NOT NULL,
    revision          INTEGER NOT NULL,
    priority          INTEGER NOT NULL,
    tensor            INTEGER NOT NULL,
    context           INTEGER NOT NULL,
    pipeline          INTEGER NOT NULL,
    data              INTEGER NOT NULL,
    ranks_per_node    INTEGER NOT NULL,
    pool              TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    state_wall_ms     INTEGER NOT NULL,
    reason            TEXT    NOT NULL,
    submitted_wall_ms INTEGER NOT NULL,
    ended_wall_ms     INTEGER NOT NULL DEFAULT 0,
    attempt           INTEGER, -- NULL: none yet
    restore_step      INTEGER NOT NULL DEFAULT 0,
    stepped           INTEGER NOT NULL DEFAULT 0,
    cancelled_by      TEXT,    -- NULL: nobody asked
    held_by           TEXT,
    approved_by       TEXT,
    quarantined       TEXT,    -- why
    save_request      INTEGER NOT NULL DEFAULT 0,
    stop_request      INTEGER NOT NULL DEFAULT 0,
    recovery          INTEGER NOT NULL DEFAULT 0 -- the open one
) STRICT;
CREATE INDEX jobs_name ON jobs (name);

CREATE TABLE job_log (
    seq        INTEGER PRIMARY KEY,
    job        INTEGER NOT NULL,
    wall_ms    INTEGER NOT NULL,
    from_state TEXT    NOT NULL,
    to_state   TEXT    NOT NULL,
    reason     TEXT    NOT NULL
) STRICT;
CREATE INDEX job_log_job ON job_log (job, seq);

-- How often a job saves, where its file says auto: each choice and what it was concluded from.
CREATE TABLE interval_log (
    seq         INTEGER PRIMARY KEY,
    job         INTEGER NOT NULL,
    wall_ms     INTEGER NOT NULL,
    interval_ms INTEGER NOT NULL,
    saves       INTEGER NOT NULL,
    stall_ms    INTEGER NOT NULL,
    save_ms     INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    span_ms     INTEGER NOT NULL,
    gap_ms      INTEGER NOT NULL
) STRICT;
CREATE INDEX interval_log_job ON interval_log (job, seq);

-- How many spares a job keeps, where its file says auto.
CREATE TABLE reserve_log (
    seq     INTEGER PRIMARY KEY,
    job     INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    wanted  INTEGER NOT NULL,
    losses  INTEGER NOT NULL,
    span_ms INTEGER NOT NULL,
    gap_ms  INTEGER NOT NULL,
    away_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX reserve_log_job ON reserve_log (job, seq);

-- When a job had fewer ready spares than it is to have, and when it had enough again.
CREATE TABLE spares_log (
    seq     INTEGER PRIMARY KEY,
    job     INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    low     INTEGER NOT NULL,
    ready   INTEGER NOT NULL,
    wanted  INTEGER NOT NULL
) STRICT;
CREATE INDEX spares_log_job ON spares_log (job, seq);

-- Every version of a job's file, as the tree that was accepted.
CREATE TABLE job_specs (
    job      INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    wall_ms  INTEGER NOT NULL,
    text     TEXT    NOT NULL,
    PRIMARY KEY (job, revision)
) STRICT;

CREATE TABLE attempts (
    job              INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    recovery         INTEGER NOT NULL DEFAULT 0, -- that made it
    restore_step     INTEGER NOT NULL DEFAULT 0, -- 0: from the beginning
    restore_attempt  INTEGER NOT NULL DEFAULT 0,
    made_wall_ms     INTEGER NOT NULL DEFAULT 0,
    launched_wall_ms INTEGER NOT NULL DEFAULT 0,
    ended_wall_ms    INTEGER NOT NULL DEFAULT 0,
    ended_phase      TEXT    NOT NULL DEFAULT '', -- how far it had come
    stepped          INTEGER NOT NULL DEFAULT 0,
    last_step        INTEGER NOT NULL DEFAULT 0,
    address          TEXT    NOT NULL DEFAULT '',
    port             INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- Who holds which slot now (node 0: nobody) …
CREATE TABLE slots (
    job           INTEGER NOT NULL,
    slot          INTEGER NOT NULL,
    node          INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    done          INTEGER NOT NULL DEFAULT 0, -- its ranks ended well
    since_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (job, slot)
) STRICT, WITHOUT ROWID;

-- … and who held it when.
CREATE TABLE slot_log (
    job          INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    seq          INTEGER NOT NULL, -- of the record that gave it
    node         INTEGER NOT NULL,
    from_node    INTEGER NOT NULL, -- whose place it took; 0: first
    attempt      INTEGER NOT NULL,
    why          TEXT    NOT NULL,
    from_wall_ms INTEGER NOT NULL,
    to_wall_ms   INTEGER, -- NULL: to this day
    to_seq       INTEGER,
    PRIMARY KEY (job, slot, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX slot_log_node ON slot_log (node, seq);

CREATE TABLE incidents (
    incident       INTEGER PRIMARY KEY,
    job            INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    step           INTEGER NOT NULL,
    opened_wall_ms INTEGER NOT NULL,
    judged_wall_ms INTEGER NOT NULL DEFAULT 0, -- 0: not yet
    owner          TEXT    NOT NULL DEFAULT '',
    action         TEXT    NOT NULL DEFAULT '',
    lane           TEXT    NOT NULL DEFAULT '',
    confidence     TEXT    NOT NULL DEFAULT '',
    rule           TEXT    NOT NULL DEFAULT '',
    facts_used     INTEGER NOT NULL DEFAULT 0,
    blamed         INTEGER NOT NULL DEFAULT 0, -- nodes
    signature      TEXT    NOT NULL DEFAULT '',
    why            TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE facts (
    seq        INTEGER PRIMARY KEY,
    incident   INTEGER NOT NULL,
    wall_ms    INTEGER NOT NULL,
    source     TEXT    NOT NULL,
    severity   INTEGER NOT NULL,
    node       INTEGER NOT NULL,
    job        INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    gpu        INTEGER NOT NULL,
    port       INTEGER NOT NULL,
    code       INTEGER NOT NULL,
    receive_ms INTEGER NOT NULL,
    text       TEXT    NOT NULL
) STRICT;
CREATE INDEX facts_incident ON facts (incident, seq);

CREATE TABLE blamed (
    incident INTEGER NOT NULL,
    node     INTEGER NOT NULL,
    slot     INTEGER NOT NULL, -- -1: it held none
    seq      INTEGER NOT NULL,
    PRIMARY KEY (incident, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE recoveries (
    recovery       INTEGER PRIMARY KEY,
    job            INTEGER NOT NULL,
    incident       INTEGER NOT NULL,
    cause          TEXT    NOT NULL,
    outcome        TEXT    NOT NULL DEFAULT 'open',
    phase          TEXT    NOT NULL,
    attempt        INTEGER NOT NULL, -- the one that ended
    attempt_new    INTEGER,          -- NULL until planned
    opened_wall_ms INTEGER NOT NULL,
    closed_wall_ms INTEGER NOT NULL DEFAULT 0,
    took_ms        INTEGER,          -- NULL while open
    opened_service_ms INTEGER NOT NULL,
    last_step      INTEGER NOT NULL DEFAULT 0,
    restore_step   INTEGER NOT NULL DEFAULT 0,
    lost_steps     INTEGER NOT NULL DEFAULT 0,
    moved_nodes    INTEGER NOT NULL DEFAULT 0,
    shifted_ranks  INTEGER NOT NULL DEFAULT 0,
    merged         INTEGER NOT NULL DEFAULT 0, -- further incidents that it took in
    skipped        INTEGER NOT NULL DEFAULT 0, -- newer checkpoints that the plan passed over
    parts          INTEGER NOT NULL DEFAULT 0  -- of the one restored: bits; 0 = not known
) STRICT;
CREATE INDEX recoveries_job ON recoveries (job, recovery);

-- Each time a phase was entered; a plan that failed comes back to earlier ones.
CREATE TABLE phases (
    recovery           INTEGER NOT NULL,
    seq                INTEGER NOT NULL,
    phase              TEXT    NOT NULL,
    started_wall_ms    INTEGER NOT NULL,
    started_service_ms INTEGER NOT NULL,
    ended_wall_ms      INTEGER, -- NULL: it is the present one
    ms                 INTEGER,
    PRIMARY KEY (recovery, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    job             INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    step            INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    shards          INTEGER NOT NULL,
    parts           INTEGER NOT NULL,
    bytes           INTEGER NOT NULL,
    stall_ms        INTEGER NOT NULL,
    took_ms         INTEGER NOT NULL,
    hash            TEXT    NOT NULL,
    directory       TEXT    NOT NULL,
    note            TEXT    NOT NULL,
    began_wall_ms   INTEGER NOT NULL,
    changed_wall_ms INTEGER NOT NULL,
    pinned_by       TEXT    NOT NULL DEFAULT '', -- '': it is not pinned
    pinned_why      TEXT    NOT NULL DEFAULT '',
    removed_wall_ms INTEGER NOT NULL DEFAULT 0,  -- 0: its folder was not removed by us
    PRIMARY KEY (job, attempt, step)
) STRICT, WITHOUT ROWID;

-- What a person saw; seq is the revision of the event stream.
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    wall_ms  INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    severity TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    job      INTEGER NOT NULL,
    node     INTEGER NOT NULL,
    recovery INTEGER NOT NULL,
    message  TEXT    NOT NULL
) STRICT;
CREATE INDEX events_job ON events (job, seq);
CREATE INDEX events_node ON events (node, seq);
CREATE INDEX events_type ON events (type, seq);
CREATE INDEX events_wall ON events (wall_ms);

-- Who did what by hand, and why.
CREATE TABLE actions (
    seq     INTEGER PRIMARY KEY,
    wall_ms INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    actor   TEXT    NOT NULL,
    verb    TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    result  TEXT    NOT NULL
) STRICT;

-- Every settled millisecond of a job has one kind.
CREATE TABLE job_times (
    job  INTEGER NOT NULL,
    kind TEXT    NOT NULL,
    ms   INTEGER NOT NULL,
    PRIMARY KEY (job, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE budgets (
    job             INTEGER NOT NULL,
    owner           TEXT    NOT NULL,
    used            INTEGER NOT NULL,
    no_progress     INTEGER NOT NULL,
    signature       TEXT    NOT NULL,
    changed_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (job, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE foreign_ranks (
    node             INTEGER NOT NULL,
    job              INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    term             INTEGER NOT NULL,
    seen_wall_ms     INTEGER NOT NULL,
    resolved_wall_ms INTEGER NOT NULL DEFAULT 0,
    stopped          INTEGER NOT NULL DEFAULT 0, -- else it was adopted
    PRIMARY KEY (node, job, attempt)
) STRICT, WITHOUT ROWID;

-- ---- views: the questions of the morning after ------------------------------------------------

-- What happened last night? Everything since 18:00 of yesterday.
CREATE VIEW last_night AS
SELECT datetime(e.wall_ms / 1000, 'unixepoch', 'localtime') AS time,
       e.severity, e.subject, e.type, e.message
FROM events AS e
WHERE e.wall_ms >= 1000 * CAST(strftime('%s', 'now', 'localtime', 'start of day', '-6 hours', 'utc')
                               AS INTEGER)
ORDER BY e.seq;

-- Why did node X leave?
CREATE VIEW node_history AS
SELECT datetime(l.wall_ms / 1000, 'unixepoch', 'localtime') AS time,
       n.name AS node, l.what, l.detail, l.actor,
       j.name AS job, l.slot,
       CASE WHEN l.incident > 0 THEN l.incident END AS incident,
       i.owner AS fault_owner, i.rule, i.why AS verdict,
       l.seq, l.wall_ms
FROM node_log AS l
JOIN nodes AS n USING (node)
LEFT JOIN jobs AS j ON j.job = l.job
LEFT JOIN incidents AS i ON i.incident = l.incident
ORDER BY l.node, l.seq;

-- How long did each phase of the recoveries take?
CREATE VIEW recovery_phases AS
SELECT datetime(r.opened_wall_ms / 1000, 'unixepoch', 'localtime') AS time,
       r.recovery, j.name AS job, r.cause, r.outcome,
       p.phase, sum(p.ms) AS ms, count(*) AS entered,
       r.took_ms AS recovery_ms, r.lost_steps, r.moved_nodes, r.shifted_ranks, min(p.seq) AS seq
FROM recoveries AS r
JOIN phases AS p USING (recovery)
LEFT JOIN jobs AS j ON j.job = r.job
GROUP BY r.recovery, p.phase
ORDER BY r.recovery, min(p.seq);

-- Where did the job's time go?
CREATE VIEW job_time AS
SELECT j.name AS job, j.job AS job_id, t.kind, t.ms,
       round(t.ms / 1000.0, 1) AS seconds,
       round(100.0 * t.ms / (sum(t.ms) OVER (PARTITION BY t.job)), 2) AS percent
FROM job_times AS t
JOIN jobs AS j USING (job)
WHERE t.ms > 0
ORDER BY t.job, t.ms DESC;

-- Who held slot 3 at 02:00? since <= T and T < until.
CREATE VIEW slot_holder AS
SELECT j.name AS job, j.job AS job_id, s.slot, n.name AS node, f.name AS in_place_of, s.why,
       s.attempt,
       datetime(s.from_wall_ms / 1000, 'unixepoch', 'localtime') AS since,
       coalesce(datetime(s.to_wall_ms / 1000, 'unixepoch', 'localtime'), '9999-12-31 23:59:59')
           AS until
FROM slot_log AS s
LEFT JOIN jobs AS j USING (job)
LEFT JOIN nodes AS n ON n.node = s.node
LEFT JOIN nodes AS f ON f.node = s.from_node
ORDER BY s.job, s.slot, s.seq;
