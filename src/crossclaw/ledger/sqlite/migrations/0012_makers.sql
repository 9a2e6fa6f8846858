-- Why a job was switched off by the gateway itself; empty when a person did it.
ALTER TABLE jobs ADD COLUMN off_because TEXT;
