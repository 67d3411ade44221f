-- What is archived can be searched. Each archived item has one row here, also if there are no words in it: so it is
-- known which items were looked at already.
CREATE TABLE archived (
    no INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX archived_of_thread ON archived (thread, seq);

-- By the number of an archived item its words, each with the number of the thread in front: a search reads the entries
-- of its own thread and no others. Texts are not stored again, and positions of words are not needed. The words come as
-- they are to be found; this tokenizer only splits them at the spaces.
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
