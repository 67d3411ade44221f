-- Tables first, indexes after them: a rebuilt file then has the same layout as a new one.
--
-- Rows refer to each other by number. Commits are added at the end of one tree, whatever thread they belong to: that
-- is what makes a group of appends cheap. The index beside it finds a thread's commits in their order.

CREATE TABLE sessions (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT,
    created INTEGER NOT NULL
) STRICT;

-- `end`, `turns` and `updated` are in `state` too; they are columns so that lists need not parse it.
-- `fence` is the number of the last lease there was; without an `owner` nobody holds one.
CREATE TABLE threads (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    main INTEGER NOT NULL,
    label TEXT,
    base_thread TEXT,
    base_seq INTEGER,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    until INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL
) STRICT;

-- The long column is the last one: the others are read without it.
CREATE TABLE commits (
    no INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    blobs TEXT,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE turn_keys (
    thread INTEGER NOT NULL,
    name TEXT NOT NULL,
    turn INTEGER NOT NULL,
    began INTEGER NOT NULL,
    PRIMARY KEY (thread, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE blobs (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    hash TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- Which threads need which blobs: a blob goes with the last of them.
CREATE TABLE blob_uses (
    thread INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (thread, blob)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX sessions_by_name ON sessions (tenant, name);
CREATE UNIQUE INDEX threads_by_name ON threads (tenant, name);
CREATE INDEX threads_of_session ON threads (session);
CREATE UNIQUE INDEX commits_of_thread ON commits (thread, first);
CREATE UNIQUE INDEX blobs_by_hash ON blobs (tenant, hash, bytes);
CREATE INDEX blob_uses_by_blob ON blob_uses (blob);
