-- Knowledge bases. `chunks` and `length` are sums over its chunks; `last` is the number of the newest chunk there ever
-- was; `version` grows with every change.
CREATE TABLE bases (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    documents INTEGER NOT NULL DEFAULT 0,
    chunks INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    settings TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX bases_by_name ON bases (tenant, name);

-- The documents of a base. `first` is the key of the first chunk, the others follow.
CREATE TABLE sources (
    no INTEGER PRIMARY KEY,
    base INTEGER NOT NULL,
    id TEXT NOT NULL,
    version TEXT NOT NULL,
    first INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    length INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    title TEXT NOT NULL,
    origin TEXT,
    metadata TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX sources_by_id ON sources (base, id);

-- The key of a chunk is the number of its base, times 2^40, plus its number in the base: so all tables of chunks are
-- read by ranges, and a document's chunks are neighbours.
CREATE TABLE chunks (
    no INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    position INTEGER NOT NULL,
    section INTEGER NOT NULL,
    byte_start INTEGER NOT NULL,
    byte_end INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    char_end INTEGER NOT NULL,
    headings TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

-- What ranking reads of a chunk, apart from its text: many of these fit into a page.
CREATE TABLE chunk_terms (
    no INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    is_last INTEGER NOT NULL,
    at INTEGER NOT NULL,
    terms BLOB NOT NULL
) STRICT;

-- The terms of each chunk, with the number of its base in front: a search reads the entries of its own base and no
-- others. The terms come as they are to be found; this tokenizer only splits them at the spaces.
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
-- Many chunks come at once: the more of them are sorted in memory, the fewer parts of the index have to be merged.
INSERT INTO chunk_words (chunk_words, rank) VALUES ('hashsize', 16777216);

CREATE TABLE chunk_vectors (
    no INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;

-- Archived items are ranked like chunks: each has its terms, and its log has their sums. Items without words have none.
ALTER TABLE archived ADD COLUMN at INTEGER;
ALTER TABLE archived ADD COLUMN terms BLOB;
CREATE TABLE archives (
    log INTEGER PRIMARY KEY,
    texts INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;
-- What has to be indexed again, which takes more than a script: the program does it before anything else.
CREATE TABLE outdated (what TEXT PRIMARY KEY) STRICT;
INSERT INTO outdated SELECT 'archives' WHERE EXISTS (SELECT 1 FROM archived);
