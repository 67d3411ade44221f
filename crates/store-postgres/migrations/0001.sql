-- Threads and their logs. Every key begins with the tenant, and what belongs to a thread has the thread next: a
-- PostgreSQL that is spread over machines can split by them. So there are no sequences, no foreign keys and no
-- unique constraints across tenants. Names compare byte by byte ("C"), as in the program.

CREATE TABLE {schema}.sessions (
    tenant  text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    label   text,
    created bigint NOT NULL,
    nonce   bigint NOT NULL, -- Who made it: a creator that lost its connection recognises its own.
    PRIMARY KEY (tenant, session)
);

-- One row is updated with every append. Space is left in its page, so that no index needs to be touched.
CREATE TABLE {schema}.threads (
    tenant      text COLLATE "C" NOT NULL,
    thread      text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    main        boolean NOT NULL,
    label       text,
    base_thread text COLLATE "C",
    base_seq    bigint,
    created     bigint NOT NULL,
    updated     bigint NOT NULL,
    end_seq     bigint NOT NULL,
    turns       bigint NOT NULL,
    state       text NOT NULL, -- JSON.
    lease_owner text,
    lease_fence bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,   -- By this server's clock.
    nonce       bigint NOT NULL,
    PRIMARY KEY (tenant, thread)
) WITH (fillfactor = 50);

CREATE INDEX threads_of_session ON {schema}.threads (tenant, session, thread);

-- Items first_seq to first_seq + count - 1 of a log, in one document. Most are of a few kilobytes, and stay in the
-- table as they are: packing and unpacking them took longer than writing and reading them.
CREATE TABLE {schema}.commits (
    tenant    text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    first_seq bigint NOT NULL,
    count     integer NOT NULL,
    body      text NOT NULL,   -- JSON.
    blobs     text,            -- JSON: where large texts belong in it.
    nonce     bigint NOT NULL, -- Which append wrote it.
    PRIMARY KEY (tenant, thread, first_seq)
) WITH (toast_tuple_target = 8160);

CREATE TABLE {schema}.turn_keys (
    tenant   text COLLATE "C" NOT NULL,
    thread   text COLLATE "C" NOT NULL,
    key_hash text COLLATE "C" NOT NULL, -- SHA-256: keys come from outside and may be long.
    turn     bigint NOT NULL,
    began    bigint NOT NULL,
    PRIMARY KEY (tenant, thread, key_hash)
);

-- Large texts, each once. Bytes and not text, which can't hold a NUL.
CREATE TABLE {schema}.blobs (
    tenant text COLLATE "C" NOT NULL,
    hash   text COLLATE "C" NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (tenant, hash)
);

CREATE TABLE {schema}.blob_refs (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    hash   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, thread, hash)
);

CREATE INDEX blob_refs_by_hash ON {schema}.blob_refs (tenant, hash);
