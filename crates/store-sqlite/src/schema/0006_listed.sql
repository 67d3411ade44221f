-- `needs_writer` changes twice in every turn, and an index on it cost two pages each time. `is_listed` is 1 if it was 1
-- lately: logs without a writer are searched among those, and are taken off the list a while later.
ALTER TABLE logs ADD COLUMN is_listed INTEGER NOT NULL DEFAULT 0;
UPDATE logs SET is_listed = 1 WHERE needs_writer = 1;
DROP INDEX logs_due;
CREATE INDEX logs_due ON logs (tenant, name) WHERE is_listed = 1;
