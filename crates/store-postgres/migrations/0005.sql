-- Knowledge bases. `chunks` and `length` are sums over its chunks; `last` is the number of the newest chunk there ever
-- was; `version` grows with every change. Texts are bytes: some have characters that a text of this database can't have.
CREATE TABLE {schema}.bases (
    tenant    text COLLATE "C" NOT NULL,
    base      text COLLATE "C" NOT NULL,
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    documents bigint NOT NULL DEFAULT 0,
    chunks    bigint NOT NULL DEFAULT 0,
    length    bigint NOT NULL DEFAULT 0,
    last      bigint NOT NULL DEFAULT 0,
    version   bigint NOT NULL DEFAULT 0,
    settings  bytea NOT NULL,
    PRIMARY KEY (tenant, base)
);

-- The documents of a base. `first` is the number of the first chunk, the others follow.
CREATE TABLE {schema}.sources (
    tenant     text COLLATE "C" NOT NULL,
    base       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bytea NOT NULL,
    first      bigint NOT NULL,
    chunks     bigint NOT NULL,
    length     bigint NOT NULL,
    bytes      bigint NOT NULL,
    at         bigint NOT NULL,
    media_type bytea NOT NULL,
    title      bytea NOT NULL,
    origin     bytea,
    metadata   bytea NOT NULL,
    PRIMARY KEY (tenant, base, id)
);

CREATE TABLE {schema}.chunks (
    tenant     text COLLATE "C" NOT NULL,
    base       text COLLATE "C" NOT NULL,
    no         bigint NOT NULL,
    source     text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    section    bigint NOT NULL,
    byte_start bigint NOT NULL,
    byte_end   bigint NOT NULL,
    char_start bigint NOT NULL,
    char_end   bigint NOT NULL,
    headings   bytea NOT NULL,
    text       bytea NOT NULL,
    PRIMARY KEY (tenant, base, no)
);

-- What ranking reads of a chunk, apart from its text, and the tokens under which it is found: its terms, each with a
-- number of its base in front, so that a search reads few entries of other bases.
CREATE TABLE {schema}.chunk_terms (
    tenant   text COLLATE "C" NOT NULL,
    base     text COLLATE "C" NOT NULL,
    no       bigint NOT NULL,
    position bigint NOT NULL,
    is_last  boolean NOT NULL,
    at       bigint NOT NULL,
    terms    bytea NOT NULL,
    tokens   tsvector,
    PRIMARY KEY (tenant, base, no)
);

-- Tokens are entered at once: a list of those that are not would be read by every search.
CREATE INDEX chunk_terms_by_token ON {schema}.chunk_terms USING gin (tokens) WITH (fastupdate = off);

CREATE TABLE {schema}.chunk_vectors (
    tenant text COLLATE "C" NOT NULL,
    base   text COLLATE "C" NOT NULL,
    no     bigint NOT NULL,
    model  bytea NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (tenant, base, no)
);

-- Archived items are ranked like chunks: each has its terms, and its thread has their sums. Items without words have
-- none. The program makes those of items that were archived before.
ALTER TABLE {schema}.archived ADD COLUMN at bigint;
ALTER TABLE {schema}.archived ADD COLUMN terms bytea;
ALTER TABLE {schema}.archived ADD COLUMN length bigint NOT NULL DEFAULT 0;
CREATE TABLE {schema}.archives (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    texts  bigint NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (tenant, thread)
);
