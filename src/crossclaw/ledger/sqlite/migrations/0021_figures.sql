-- Turns, failures, tokens, cost and time, added up by agent, model and channel in slots of five minutes; what is older than
-- a week in hours. Written with what they count, and kept when sessions go.
CREATE TABLE figures (
    minutes         INTEGER NOT NULL,              -- how long the slot is: 5 or 60
    at              INTEGER NOT NULL,              -- when it began
    agent_id        TEXT NOT NULL,
    model           TEXT NOT NULL,                 -- '' where none answered
    channel         TEXT NOT NULL,
    shard           INTEGER NOT NULL,              -- gateways that share a store add to rows of their own
    turns           INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    stopped         INTEGER NOT NULL,
    calls           INTEGER NOT NULL,
    input           INTEGER NOT NULL,
    cached          INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    cost_usd        REAL NOT NULL,
    took_ms         INTEGER NOT NULL,
    t0              INTEGER NOT NULL,              -- turns by how long they took (LATENCY_MS in domain/figures.py)
    t1              INTEGER NOT NULL,
    t2              INTEGER NOT NULL,
    t3              INTEGER NOT NULL,
    t4              INTEGER NOT NULL,
    t5              INTEGER NOT NULL,
    t6              INTEGER NOT NULL,
    t7              INTEGER NOT NULL,
    PRIMARY KEY (minutes, at, agent_id, model, channel, shard)
) WITHOUT ROWID;

-- What was used until now, by the hour.
INSERT INTO figures
WITH said AS MATERIALIZED (
    SELECT id, run_id, at, body ->> '$.usage.output' IS NOT NULL OR body ->> '$.usage.input' IS NOT NULL AS used,
        coalesce(body ->> '$.provider' || '/', '') || (body ->> '$.model') AS model,
        coalesce(body ->> '$.usage.input', 0) + coalesce(body ->> '$.usage.cacheWrite', 0) AS input,
        coalesce(body ->> '$.usage.cacheRead', 0) AS cached,
        coalesce(body ->> '$.usage.output', 0) AS output,
        coalesce(body ->> '$.usage.cost', 0.0) AS cost
    FROM (SELECT id, run_id, at, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) ELSE '{}' END AS body
          FROM entries WHERE role = 'assistant' AND run_id IS NOT NULL)
), known AS MATERIALIZED (
    SELECT run_id, agent_id, status, started_at, ended_at, kind, merged_into, ended_at - started_at AS took,
        CASE WHEN kind IN ('chat', 'agent') AND chat IS NOT NULL THEN chat
            WHEN kind IN ('send', 'round', 'announce', 'spawn') THEN 'agents' WHEN kind = 'cron' THEN 'jobs'
            WHEN kind = 'hook' THEN 'hooks' WHEN kind = 'node' THEN 'nodes' WHEN kind = 'agent' THEN 'api'
            ELSE 'webchat' END AS channel
    FROM (SELECT *, CASE WHEN json_valid(plan) THEN plan ->> '$.reply_to.channel' END AS chat FROM runs)
), heard AS MATERIALIZED (SELECT run_id, model, max(id) FROM said WHERE model IS NOT NULL GROUP BY run_id)
SELECT 60, at - at % 3600000, agent_id, model, channel, 0, sum(turns), sum(failed), sum(stopped), sum(calls), sum(input),
    sum(cached), sum(output), sum(cost), sum(took), sum(took_class = 0), sum(took_class = 1), sum(took_class = 2),
    sum(took_class = 3), sum(took_class = 4), sum(took_class = 5), sum(took_class = 6), sum(took_class = 7)
FROM (
    SELECT said.at, agent_id, coalesce(model, '') AS model, channel, 0 AS turns, 0 AS failed, 0 AS stopped, 1 AS calls,
        input, cached, output, cost, 0 AS took, -1 AS took_class
    FROM said JOIN known USING (run_id) WHERE used
    UNION ALL
    SELECT ended_at, agent_id, coalesce(model, ''), channel, 1, status IN ('error', 'timeout'), status = 'aborted', 0,
        0, 0, 0, 0.0, coalesce(took, 0),
        CASE WHEN took IS NULL THEN -1 WHEN took <= 300 THEN 0 WHEN took <= 1000 THEN 1 WHEN took <= 3000 THEN 2
            WHEN took <= 10000 THEN 3 WHEN took <= 30000 THEN 4 WHEN took <= 100000 THEN 5 WHEN took <= 300000 THEN 6
            ELSE 7 END
    FROM known LEFT JOIN heard USING (run_id)
    WHERE ended_at IS NOT NULL AND merged_into IS NULL AND kind <> 'command'
) GROUP BY at - at % 3600000, agent_id, model, channel;
