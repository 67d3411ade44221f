-- Threads, runs of flows and journals are logs in one table. Streams are gone: what they held are items now.

-- The audit log belongs to a tenant of its own: its session must not be in the way of a tenant's.
UPDATE streams SET tenant = '~system' WHERE kind = 'audit' AND session = '';

-- `kind` is `main`, `isolated`, `run` or `journal`. `end`, `turns` and `updated` are in a thread's `state` too; they are
-- columns so that lists need not parse it. `fence` is the number of the last lease there was; without an `owner` it is
-- not held. `numbered` is the last number given in the session, in the row of its main thread: an append to that
-- writes no other page for it. `oldest` is the time of a journal's first item; without items it is null. The long
-- column is the last one: the others are read without it.
CREATE TABLE logs (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    label TEXT,
    base_thread TEXT,
    base_seq INTEGER,
    start_key TEXT,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    until INTEGER NOT NULL DEFAULT 0,
    needs_writer INTEGER NOT NULL DEFAULT 0,
    numbered INTEGER NOT NULL DEFAULT 0,
    oldest INTEGER,
    state TEXT NOT NULL
) STRICT;

INSERT INTO logs (no, session, tenant, name, kind, label, base_thread, base_seq, created, updated, "end", turns, owner,
    fence, until, needs_writer, state)
SELECT no, session, tenant, name, iif(main, 'main', 'isolated'), label, base_thread, base_seq, created, updated, "end",
    turns, owner, fence, until,
    coalesce(iif(json_valid(state), state ->> '$.open.status', '') = 'in_flight', 0), state
FROM threads ORDER BY no;
DROP TABLE threads;

CREATE UNIQUE INDEX logs_by_name ON logs (tenant, name);
CREATE INDEX logs_by_kind ON logs (kind, tenant, name);
CREATE INDEX logs_of_session ON logs (session, kind, name);
CREATE UNIQUE INDEX logs_by_start_key ON logs (tenant, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX logs_due ON logs (tenant, name) WHERE needs_writer = 1;
CREATE INDEX logs_by_age ON logs (oldest) WHERE oldest IS NOT NULL;

-- `number` is that of the first item in its session; copies made by a fork and items of journals have none, and no
-- `session`. All rows of an append have its `nonce`.
ALTER TABLE commits RENAME TO commits_before;
CREATE TABLE commits (
    no INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    session INTEGER,
    number INTEGER,
    nonce TEXT,
    blobs TEXT,
    body TEXT NOT NULL
) STRICT;

CREATE TEMP TABLE numbers (no INTEGER PRIMARY KEY, session INTEGER, number INTEGER);
INSERT INTO numbers
SELECT c.no, l.session, sum(c.count) OVER (PARTITION BY l.session ORDER BY c.no) - c.count + 1
FROM commits_before AS c JOIN logs AS l ON l.no = c.thread
WHERE l.base_seq IS NULL OR c.first + c.count - 1 > l.base_seq;
INSERT INTO commits (no, log, first, count, session, number, blobs, body)
SELECT c.no, c.thread, c.first, c.count, n.session, n.number, c.blobs, c.body
FROM commits_before AS c LEFT JOIN numbers AS n ON n.no = c.no ORDER BY c.no;
DROP TABLE commits_before;
DROP TABLE numbers;

CREATE UNIQUE INDEX commits_of_log ON commits (log, first);
CREATE UNIQUE INDEX commits_by_number ON commits (session, number) WHERE number IS NOT NULL;

-- States say now where the newest turn began or was resumed.
UPDATE logs SET state = json_set(state, '$.started', turn.started) FROM (
    SELECT no, (
        SELECT c.first + item.key FROM commits AS c CROSS JOIN json_each(c.body, '$.items') AS item
        WHERE c.log = l.no AND json_valid(c.body) AND (item.value -> '$.body.change.turn_began' IS NOT NULL
            OR item.value ->> '$.body.change' = 'turn_resumed')
        ORDER BY c.first DESC, item.key DESC LIMIT 1
    ) AS started FROM logs AS l
) AS turn WHERE turn.no = logs.no AND turn.started IS NOT NULL AND json_valid(state);

ALTER TABLE turn_keys RENAME COLUMN thread TO log;
ALTER TABLE blob_uses RENAME COLUMN thread TO log;
ALTER TABLE archived RENAME COLUMN thread TO log;

-- The text of an answer that is not whole yet, and how often it was saved: so other processes notice it.
CREATE TABLE unfinished (
    log INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    saves INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX unfinished_of_session ON unfinished (session);

-- A session for the audit log, which belonged to none.
INSERT OR IGNORE INTO sessions (tenant, name, created)
SELECT s.tenant, 'audit', coalesce(s.oldest, 0) FROM streams AS s
WHERE s.kind = 'audit' AND s.session = ''
    AND NOT EXISTS (SELECT 1 FROM logs WHERE tenant = s.tenant AND name = 'audit' AND kind <> 'main');
INSERT OR IGNORE INTO logs (session, tenant, name, kind, created, updated, "end", turns, state)
SELECT no, tenant, name, 'main', created, created, 0, 0, '{}' FROM sessions WHERE name = 'audit';

-- Streams that become logs, with the documents of runs; `taken` is how much of its inbox a run has read.
CREATE TEMP TABLE moved AS
SELECT st.no AS stream, s.no AS session, s.tenant, s.name || '///' || st.kind AS name, 'journal' AS kind,
    iif(st.kind = 'passes', 'pass', 'audit') AS item, NULL AS inbox, 0 AS taken, st.last, st.oldest, s.created,
    coalesce((SELECT max(at) FROM records WHERE stream = st.no), s.created) AS updated, 0 AS is_running,
    NULL AS start_key, '{}' AS state
FROM streams AS st JOIN sessions AS s ON s.tenant = st.tenant
    AND s.name = iif(st.kind = 'audit' AND st.session = '', 'audit', st.session)
WHERE (st.kind = 'passes' AND st.session <> '') OR (st.kind = 'audit' AND st.session = '')
UNION ALL
SELECT l.no, s.no, s.tenant, s.name || '//' || d.name, 'run', 'flow', i.no, CAST(coalesce(d.data ->> '$.taken', 0) AS INTEGER),
    coalesce(l.last, 0), NULL, CAST(coalesce(d.data ->> '$.created', d.at) AS INTEGER), d.at, d.data ->> '$.status' = 'running',
    (SELECT name FROM documents WHERE kind = 'flow.key' AND tenant = d.tenant AND session = ''
        AND name = d.data ->> '$.key' AND data = d.session || '.' || d.name),
    d.data
FROM documents AS d JOIN sessions AS s ON s.tenant = d.tenant AND s.name = d.session
    LEFT JOIN streams AS l ON l.tenant = d.tenant AND l.session = d.session AND l.kind = 'flow.log.' || d.name
    LEFT JOIN streams AS i ON i.tenant = d.tenant AND i.session = d.session AND i.kind = 'flow.inbox.' || d.name
WHERE d.kind = 'flow.run' AND json_valid(d.data);

INSERT INTO logs (session, tenant, name, kind, start_key, created, updated, "end", turns, needs_writer, oldest, state)
SELECT session, tenant, name, kind, start_key, created, updated, last + unread, 0,
    coalesce(is_running, 0) OR unread > 0, oldest, state
FROM (
    SELECT m.*, (SELECT count(*) FROM records WHERE stream = m.inbox AND number > m.taken) AS unread FROM moved AS m
) ORDER BY session, kind, name;

-- Each record is an item that only its owner sees. What a run has not read yet comes after its own records.
CREATE TEMP TABLE moved_items AS
SELECT i.record, i.item, i.first, l.no AS log, iif(l.kind = 'run', l.session, NULL) AS session,
    row_number() OVER (PARTITION BY l.session, l.kind ORDER BY i.is_unread, i.record) AS number
FROM (
    SELECT m.tenant, m.name, r.no AS record, 0 AS is_unread, r.number AS first, m.item
    FROM moved AS m JOIN records AS r ON r.stream = m.stream
    UNION ALL
    SELECT m.tenant, m.name, r.no, 1, m.last + row_number() OVER (PARTITION BY r.stream ORDER BY r.number), 'flow.inbox'
    FROM moved AS m JOIN records AS r ON r.stream = m.inbox AND r.number > m.taken
) AS i JOIN logs AS l ON l.tenant = i.tenant AND l.name = i.name
ORDER BY i.is_unread, i.record;
UPDATE moved_items SET number = iif(session IS NULL, NULL, number + coalesce((SELECT number + count - 1 FROM commits
    WHERE session = moved_items.session AND number IS NOT NULL ORDER BY number DESC LIMIT 1), 0));
INSERT INTO commits (log, first, count, session, number, body)
SELECT i.log, i.first, 1, i.session, i.number,
    '{"at":' || r.at || ',"counter":"","items":[{"turn":0,"visibility":{"client":false,"history":false},'
        || '"body":{"application":{"kind":"' || i.item || '","value":'
        || iif(json_valid(r.data), r.data, json_quote(r.data)) || '}}}]}'
FROM moved_items AS i CROSS JOIN records AS r ON r.no = i.record;

UPDATE logs SET numbered = coalesce((SELECT number + count - 1 FROM commits
    WHERE session = logs.session AND number IS NOT NULL ORDER BY number DESC LIMIT 1), 0) WHERE kind = 'main';

DROP TABLE moved;
DROP TABLE moved_items;
DROP TABLE records;
DROP TABLE streams;
DELETE FROM documents WHERE kind IN ('running', 'closing', 'commit', 'turn', 'flow.run', 'flow.wait', 'flow.due',
    'flow.fence', 'flow.freed', 'flow.key');
-- A session's documents are found kind by kind.
DROP INDEX documents_of_session;
