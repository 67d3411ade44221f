-- Streams and documents beside the threads. `session` is empty for what belongs to none. Names of documents and what is
-- written are bytes and not text, which can't hold a NUL.

-- One row is updated with every write. `oldest` is the time of the first record that is not forgotten, null without one:
-- so old records are found without an index on the records themselves.
CREATE TABLE {schema}.streams (
    tenant    text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    forgotten bigint NOT NULL,
    last      bigint NOT NULL,
    oldest    bigint,
    PRIMARY KEY (tenant, session, kind)
) WITH (fillfactor = 50);

CREATE INDEX streams_by_age ON {schema}.streams (kind, oldest);

CREATE TABLE {schema}.records (
    tenant  text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    number  bigint NOT NULL,
    at      bigint NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (tenant, session, kind, number)
) WITH (toast_tuple_target = 8160);

CREATE TABLE {schema}.documents (
    tenant  text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    name    bytea NOT NULL,
    at      bigint NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (tenant, session, kind, name)
);

CREATE INDEX documents_by_kind ON {schema}.documents (kind, tenant, session, name);
CREATE INDEX documents_by_age ON {schema}.documents (kind, at);
