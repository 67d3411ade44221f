-- What is archived can be searched. Each archived item has a row, also if there are no words in it: so it is known which
-- items were looked at already. Among its words is one for its thread, which no text has: a search reads what has both
-- that and one of its own words.
CREATE TABLE {schema}.archived (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    words  tsvector,
    PRIMARY KEY (tenant, thread, seq)
);

-- Words are entered at once: a list of those that are not would be read by every search.
CREATE INDEX archived_by_word ON {schema}.archived USING gin (words) WITH (fastupdate = off);
