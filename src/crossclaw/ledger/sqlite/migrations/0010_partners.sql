-- Whether two sessions have exchanged messages: asked for every session that a guest might see.
CREATE INDEX exchanges_between ON exchanges (requester_key, target_key);
