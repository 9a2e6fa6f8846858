-- A command is allowed for good in the folder in which it was shown, in a sandbox or outside. What was allowed before
-- has no folder, and is asked about again.
ALTER TABLE grants ADD COLUMN folder TEXT;
ALTER TABLE grants ADD COLUMN sandboxed INTEGER NOT NULL DEFAULT 0;
