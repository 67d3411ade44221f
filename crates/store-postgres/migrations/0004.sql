-- One log for everything: threads, runs of flows and journals. Streams and the documents that marked runs are gone.

SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on;

-- The audit log belongs to a tenant that nobody else uses: its session must not be in anybody's way.
UPDATE {schema}.streams SET tenant = '~system' WHERE kind = 'audit' AND session = '';
UPDATE {schema}.records SET tenant = '~system' WHERE kind = 'audit' AND session = '';

DROP INDEX {schema}.threads_of_session;
ALTER TABLE {schema}.threads RENAME TO logs;
ALTER INDEX {schema}.threads_pkey RENAME TO logs_pkey;
ALTER TABLE {schema}.logs RENAME COLUMN main TO kind;
ALTER TABLE {schema}.logs
    ALTER COLUMN kind TYPE text COLLATE "C" USING CASE WHEN kind THEN 'main' ELSE 'isolated' END,
    ADD COLUMN needs_writer boolean NOT NULL DEFAULT false,
    ADD COLUMN start_hash text COLLATE "C",              -- SHA-256 of the start key, which may be long.
    ADD COLUMN numbered bigint NOT NULL DEFAULT 0,       -- Of a main log: the last number given in its session.
    ADD COLUMN pruned bigint NOT NULL DEFAULT 0,         -- Of a journal: how many items were removed from its start,
    ADD COLUMN oldest bigint;                            -- and the time of its first row; null if it is empty.

UPDATE {schema}.logs SET needs_writer = true WHERE state
    ~ '^\{"end":[0-9]+,"turn":[0-9]+,"open":\{"turn":[0-9]+,"began":[0-9]+,"status":"in_flight"\}';

-- States say now where the newest turn began or was resumed. JSON in PostgreSQL can't hold a NUL; in a row that has one,
-- that is the first item.
UPDATE {schema}.logs AS log SET state = '{"started":' || turn.started || ',' || substr(log.state, 2)
FROM (
    SELECT it.tenant, it.thread, (
        SELECT row.first_seq + item.place - 1
        FROM {schema}.commits AS row
        CROSS JOIN LATERAL json_array_elements(CASE position('\u0000' IN row.body)
            WHEN 0 THEN row.body::json -> 'items'
            ELSE '[{"body":{"change":"turn_resumed"}}]'
        END) WITH ORDINALITY AS item (value, place)
        WHERE row.tenant = it.tenant AND row.thread = it.thread
            AND (row.body LIKE '%{"change":{"turn_began":%' OR row.body LIKE '%{"change":"turn_resumed"}%')
            AND (item.value #> '{body,change,turn_began}' IS NOT NULL
                OR item.value #>> '{body,change}' = 'turn_resumed')
        ORDER BY row.first_seq DESC, item.place DESC LIMIT 1
    ) AS started
    FROM {schema}.logs AS it
) AS turn
WHERE turn.tenant = log.tenant AND turn.thread = log.thread AND turn.started IS NOT NULL;

-- What a writer has of an answer that is not whole yet. A row is overwritten several times a second.
CREATE TABLE {schema}.unfinished (
    tenant  text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    thread  text COLLATE "C" NOT NULL,
    body    text NOT NULL, -- JSON.
    PRIMARY KEY (tenant, session, thread)
) WITH (fillfactor = 50);

-- Runs: what was in their documents. Only the edges of the text are looked at: JSON in PostgreSQL can't hold a NUL.
CREATE TABLE {schema}.runs AS
    SELECT it.tenant, it.session, it.name, (it.session || '//' || it.name) COLLATE "C" AS thread, it.updated, it.data,
        substring(it.data FROM '"created":(-?[0-9]+)\}$')::bigint AS created,
        substring(it.data FROM '^\{"flow":"(?:[^"\\]|\\.)*","fingerprint":"[^"]*","status":"([a-z_]+)"') AS status,
        coalesce(substring(it.data FROM ',"upto":[0-9]+,"taken":([0-9]+),"state":')::bigint, 0) AS taken,
        coalesce(log.last, 0) AS last, coalesce(log.forgotten, 0) AS forgotten
    FROM (
        SELECT tenant, session, convert_from(name, 'UTF8') COLLATE "C" AS name, at AS updated,
            convert_from(data, 'UTF8') AS data
        FROM {schema}.documents WHERE kind = 'flow.run'
    ) AS it
    LEFT JOIN {schema}.streams AS log
        ON log.tenant = it.tenant AND log.session = it.session AND log.kind = 'flow.log.' || it.name;

-- Records and where they go. What a run had not read of its inbox comes after its log.
CREATE TABLE {schema}.moved AS
    SELECT it.tenant, it.session, (it.session || '///passes') COLLATE "C" AS thread, it.number AS seq,
        'pass' AS kind, it.at, it.data
    FROM {schema}.records AS it WHERE it.kind = 'passes' AND it.session <> ''
    UNION ALL
    SELECT it.tenant, 'audit', 'audit///audit', it.number, 'audit', it.at, it.data
    FROM {schema}.records AS it WHERE it.kind = 'audit' AND it.session = ''
    UNION ALL
    SELECT run.tenant, run.session, run.thread, it.number, 'flow', it.at, it.data
    FROM {schema}.runs AS run JOIN {schema}.records AS it
        ON it.tenant = run.tenant AND it.session = run.session AND it.kind = 'flow.log.' || run.name
    UNION ALL
    SELECT run.tenant, run.session, run.thread,
        run.last + row_number() OVER (PARTITION BY run.tenant, run.thread ORDER BY it.number),
        'flow.inbox', it.at, it.data
    FROM {schema}.runs AS run JOIN {schema}.records AS it
        ON it.tenant = run.tenant AND it.session = run.session AND it.kind = 'flow.inbox.' || run.name
    WHERE it.number > run.taken;

INSERT INTO {schema}.logs
    (tenant, thread, session, kind, created, updated, end_seq, turns, state, nonce, needs_writer, start_hash, pruned)
SELECT run.tenant, run.thread, run.session, 'run', coalesce(run.created, run.updated), run.updated,
    run.last + inbox.unread, 0, run.data, 0,
    coalesce(run.status = 'running' OR (run.status = 'waiting' AND inbox.unread > 0), false), start.hash, run.forgotten
FROM {schema}.runs AS run
CROSS JOIN LATERAL (
    SELECT count(*) AS unread FROM {schema}.moved AS it
    WHERE it.tenant = run.tenant AND it.thread = run.thread AND it.kind = 'flow.inbox'
) AS inbox
LEFT JOIN LATERAL (
    SELECT encode(sha256(it.name), 'hex') AS hash FROM {schema}.documents AS it
    WHERE it.tenant = run.tenant AND it.session = '' AND it.kind = 'flow.key'
        AND it.data = convert_to(run.session || '.' || run.name, 'UTF8')
    LIMIT 1
) AS start ON true;

-- The audit log gets a session of its own.
INSERT INTO {schema}.sessions (tenant, session, created, nonce)
SELECT tenant, 'audit', coalesce(oldest, 0), 0 FROM {schema}.streams WHERE kind = 'audit' AND session = ''
ON CONFLICT DO NOTHING;
INSERT INTO {schema}.logs (tenant, thread, session, kind, created, updated, end_seq, turns, state, nonce)
SELECT tenant, 'audit', 'audit', 'main', coalesce(oldest, 0), coalesce(oldest, 0), 0, 0,
    '{"end":0,"turn":0,"history_after":0,"updated":0}', 0
FROM {schema}.streams WHERE kind = 'audit' AND session = ''
ON CONFLICT DO NOTHING;

INSERT INTO {schema}.logs
    (tenant, thread, session, kind, created, updated, end_seq, turns, state, nonce, pruned, oldest)
SELECT it.tenant, it.thread, it.session, 'journal', coalesce(it.oldest, 0), coalesce(newest.at, it.oldest, 0),
    it.last, 0, '{"end":0,"turn":0,"history_after":0,"updated":0}', 0, it.forgotten, it.oldest
FROM (
    SELECT tenant, session, (session || '///passes') COLLATE "C" AS thread, last, forgotten, oldest
    FROM {schema}.streams WHERE kind = 'passes' AND session <> ''
    UNION ALL
    SELECT tenant, 'audit', 'audit///audit', last, forgotten, oldest
    FROM {schema}.streams WHERE kind = 'audit' AND session = ''
) AS it
LEFT JOIN (
    SELECT tenant, thread, max(at) AS at FROM {schema}.moved GROUP BY tenant, thread
) AS newest ON newest.tenant = it.tenant AND newest.thread = it.thread;

-- The items of threads and runs are numbered in their session by their time, those of one log in their order. Copies
-- made by a fork and journals have no numbers.
ALTER TABLE {schema}.commits RENAME TO old_commits;
CREATE TABLE {schema}.commits (
    tenant    text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    first_seq bigint NOT NULL,
    count     integer NOT NULL,
    body      text NOT NULL,             -- JSON.
    blobs     text,                      -- JSON: where large texts belong in it.
    nonce     text COLLATE "C" NOT NULL, -- Which append wrote it; empty if it has no name.
    session   text COLLATE "C" NOT NULL,
    number    bigint,                    -- The number of its first item in the session.
    at        bigint                     -- Of a journal: the time of its newest item.
) WITH (toast_tuple_target = 8160);

INSERT INTO {schema}.commits (tenant, thread, first_seq, count, body, blobs, nonce, session, number, at)
WITH every AS NOT MATERIALIZED (
    SELECT it.tenant, it.thread, log.session, log.kind, it.first_seq, it.count, it.body, it.blobs,
        coalesce(substring(it.body FROM '^\{"at":(-?[0-9]+)')::bigint, 0) AS at,
        log.kind <> 'journal' AND (log.base_seq IS NULL OR it.first_seq + it.count - 1 > log.base_seq) AS is_numbered
    FROM (
        SELECT tenant, thread, first_seq, count, body, blobs FROM {schema}.old_commits
        UNION ALL
        SELECT tenant, thread, seq, 1,
            '{"at":' || at || ',"counter":"","items":[{"turn":0,"visibility":{"client":false,"history":false},'
                || '"body":{"application":{"kind":"' || kind || '","value":' || convert_from(data, 'UTF8') || '}}}]}',
            NULL
        FROM {schema}.moved
    ) AS it
    JOIN {schema}.logs AS log ON log.tenant = it.tenant AND log.thread = it.thread
), ordered AS (
    SELECT tenant, session, thread, first_seq, count,
        max(at) OVER (PARTITION BY tenant, thread ORDER BY first_seq) AS at
    FROM every WHERE is_numbered
), numbers AS (
    SELECT tenant, thread, first_seq,
        sum(count) OVER (PARTITION BY tenant, session ORDER BY at, thread, first_seq) - count + 1 AS number
    FROM ordered
)
SELECT it.tenant, it.thread, it.first_seq, it.count, it.body, it.blobs, '', it.session, numbers.number,
    CASE it.kind WHEN 'journal' THEN it.at END
FROM every AS it LEFT JOIN numbers USING (tenant, thread, first_seq);

UPDATE {schema}.logs AS main SET numbered = it.last
FROM (
    SELECT tenant, session, max(number + count - 1) AS last FROM {schema}.commits
    WHERE number IS NOT NULL GROUP BY tenant, session
) AS it
WHERE main.tenant = it.tenant AND main.thread = it.session;

DROP TABLE {schema}.old_commits, {schema}.moved, {schema}.runs, {schema}.records, {schema}.streams;
DELETE FROM {schema}.documents WHERE kind IN (
    'events', 'control', 'running', 'closing', 'commit', 'turn', 'flow.run', 'flow.wait', 'flow.due', 'flow.fence',
    'flow.freed', 'flow.key'
);

ALTER TABLE {schema}.commits ADD PRIMARY KEY (tenant, thread, first_seq);
CREATE UNIQUE INDEX commits_by_number ON {schema}.commits (tenant, session, number) WHERE number IS NOT NULL;
CREATE INDEX logs_of_session ON {schema}.logs (tenant, session, kind, thread);
CREATE INDEX logs_of_runs ON {schema}.logs (tenant, thread) WHERE kind = 'run';
CREATE INDEX logs_due ON {schema}.logs (tenant, thread) WHERE needs_writer;
CREATE UNIQUE INDEX logs_by_start ON {schema}.logs (tenant, start_hash) WHERE start_hash IS NOT NULL;
CREATE INDEX journals_by_age ON {schema}.logs (split_part(thread, '///', 2), oldest) WHERE kind = 'journal';
