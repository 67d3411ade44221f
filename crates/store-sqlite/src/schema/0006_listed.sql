-- `needs_writer` changes twice in every turn, and an index on it cost two pages each time. `is_listed` is 1 if
-- `needs_writer` is or lately was 1: logs without a writer are searched among those, and leave the list a while later.
-- It comes after the long column, which costs nothing: 0 and 1 take no bytes of a row.
ALTER TABLE logs ADD COLUMN is_listed INTEGER NOT NULL DEFAULT 0;
UPDATE logs SET is_listed = 1 WHERE needs_writer = 1;
DROP INDEX logs_due;
CREATE INDEX logs_due ON logs (tenant, name) WHERE is_listed = 1;
