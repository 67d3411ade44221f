-- Streams and documents beside the threads. `session` is empty for what belongs to none.

-- `oldest` is the time of the first record that is not forgotten; without one it is null. So old records are found
-- without an index on the records themselves.
CREATE TABLE streams (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    forgotten INTEGER NOT NULL,
    last INTEGER NOT NULL,
    oldest INTEGER
) STRICT;

-- Like commits: added at the end of one tree, whatever stream they belong to, and found by the index beside it.
CREATE TABLE records (
    no INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE documents (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX streams_by_name ON streams (tenant, session, kind);
CREATE INDEX streams_by_age ON streams (kind, oldest);
CREATE UNIQUE INDEX records_of_stream ON records (stream, number);
CREATE UNIQUE INDEX documents_by_name ON documents (kind, tenant, session, name);
CREATE INDEX documents_of_session ON documents (tenant, session) WHERE session <> '';
CREATE INDEX documents_by_age ON documents (kind, at);
