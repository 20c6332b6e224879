-- schema.sql: the part of a store that is never thrown away. Version 1.
--
-- The journal is the truth: one row a record, seq without holes, rows never changed. Everything in
-- projections.sql is folded from it. A row is enough by itself: what happened (kind, body), when
-- (service_ms: monotonic over restarts; wall_ms: for people), to whom (subject and the ids), and
-- what a person was told (event, severity, message).
CREATE TABLE journal (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    service_ms INTEGER NOT NULL,
    wall_ms    INTEGER NOT NULL,
    kind       TEXT    NOT NULL, -- a record kind, or snapshot_begin, snapshot_end
    version    INTEGER NOT NULL,
    subject    TEXT    NOT NULL, -- node/NAME, job/NAME, recovery/ID
    job        INTEGER NOT NULL, -- 0: of none
    node       INTEGER NOT NULL,
    recovery   INTEGER NOT NULL,
    event      TEXT    NOT NULL, -- '': history, but not an event
    severity   TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    body       TEXT    NOT NULL, -- JSON, the kind's own fields
    text       TEXT              -- job_submitted: the job file's tree as JSON
) STRICT;

-- The way to the last snapshot.
CREATE INDEX journal_snapshots ON journal (seq) WHERE kind = 'snapshot_end';

-- One row: who wrote last, and up to where. Each transaction moves it from what it was before, so a
-- second writer is noticed, and after an error in COMMIT it tells whether the commit took place.
CREATE TABLE writer (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    writer TEXT    NOT NULL, -- random, of one process
    ticket INTEGER NOT NULL, -- its last batch
    seq    INTEGER NOT NULL  -- the last record
) STRICT;
INSERT INTO writer VALUES (1, '', 0, 0);
