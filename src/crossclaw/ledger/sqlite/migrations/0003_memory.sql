-- What a view of a long transcript asks for with every request: its newest compaction, its pins, and
-- what its session has under way.
CREATE INDEX entries_compacted ON entries (session_id, seq) WHERE type = 'compaction';
CREATE INDEX entries_pinned ON entries (session_id, seq) WHERE pinned;
CREATE INDEX exchanges_under_way ON exchanges (requester_key) WHERE state <> 'over';
CREATE INDEX timers_of_session ON timers (payload ->> '$.sessionKey');
