-- After crashes that keep coming: who is suspect, and how they begin (domain/suspects). One row at most.
CREATE TABLE suspicion (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    body            TEXT NOT NULL
);
