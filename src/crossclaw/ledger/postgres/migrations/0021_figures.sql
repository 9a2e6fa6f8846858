-- Turns, failures, tokens, cost and time, added up by agent, model and channel in slots of five minutes; what is older than
-- a week in hours. Written with what they count, and kept when sessions go.
CREATE TABLE figures (
    minutes         BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    agent_id        TEXT COLLATE "C" NOT NULL,
    model           TEXT COLLATE "C" NOT NULL,
    channel         TEXT COLLATE "C" NOT NULL,
    shard           BIGINT NOT NULL,
    turns           BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    stopped         BIGINT NOT NULL,
    calls           BIGINT NOT NULL,
    input           BIGINT NOT NULL,
    cached          BIGINT NOT NULL,
    output          BIGINT NOT NULL,
    cost_usd        DOUBLE PRECISION NOT NULL,
    took_ms         BIGINT NOT NULL,
    t0              BIGINT NOT NULL,
    t1              BIGINT NOT NULL,
    t2              BIGINT NOT NULL,
    t3              BIGINT NOT NULL,
    t4              BIGINT NOT NULL,
    t5              BIGINT NOT NULL,
    t6              BIGINT NOT NULL,
    t7              BIGINT NOT NULL,
    PRIMARY KEY (minutes, at, agent_id, model, channel, shard)
);

-- What was used until now, by the hour. A body that is no JSON object is left out.
INSERT INTO figures
WITH said AS MATERIALIZED (
    SELECT id, run_id, at, body ->> 'usage' IS NOT NULL AS used,
        coalesce(body ->> 'provider' || '/', '') || (body ->> 'model') AS model,
        coalesce((body -> 'usage' ->> 'input')::bigint, 0) + coalesce((body -> 'usage' ->> 'cacheWrite')::bigint, 0) AS input,
        coalesce((body -> 'usage' ->> 'cacheRead')::bigint, 0) AS cached,
        coalesce((body -> 'usage' ->> 'output')::bigint, 0) AS output,
        coalesce((body -> 'usage' ->> 'cost')::double precision, 0.0) AS cost
    FROM (SELECT id, run_id, at, replace(convert_from(body, 'UTF8'), '\u0000', '\ufffd')::json AS body FROM entries
          WHERE role = 'assistant' AND run_id IS NOT NULL AND substring(body FOR 1) = '\x7b'::bytea
              AND substring(body FROM length(body)) = '\x7d'::bytea) AS entry
), known AS MATERIALIZED (
    SELECT run_id, agent_id, status, ended_at, kind, merged_into, ended_at - started_at AS took,
        CASE WHEN kind IN ('chat', 'agent') AND chat IS NOT NULL THEN chat
            WHEN kind IN ('send', 'round', 'announce', 'spawn') THEN 'agents' WHEN kind = 'cron' THEN 'jobs'
            WHEN kind = 'hook' THEN 'hooks' WHEN kind = 'node' THEN 'nodes' WHEN kind = 'agent' THEN 'api'
            ELSE 'webchat' END AS channel
    FROM (SELECT *, CASE WHEN plan LIKE '{%}' THEN replace(plan, '\u0000', '\ufffd')::json -> 'reply_to' ->> 'channel' END AS chat FROM runs) AS run
), heard AS MATERIALIZED (
    SELECT DISTINCT ON (run_id) run_id, model FROM said WHERE model IS NOT NULL ORDER BY run_id, id DESC
), counted AS (
    SELECT said.at, agent_id, coalesce(model, '') AS model, channel, 0 AS turns, 0 AS failed, 0 AS stopped, 1 AS calls,
        input, cached, output, cost, 0::bigint AS took, -1 AS took_class
    FROM said JOIN known USING (run_id) WHERE used
    UNION ALL
    SELECT ended_at, agent_id, coalesce(model, ''), channel, 1, (status IN ('error', 'timeout'))::int,
        (status = 'aborted')::int, 0, 0, 0, 0, 0.0, coalesce(took, 0),
        CASE WHEN took IS NULL THEN -1 WHEN took <= 300 THEN 0 WHEN took <= 1000 THEN 1 WHEN took <= 3000 THEN 2
            WHEN took <= 10000 THEN 3 WHEN took <= 30000 THEN 4 WHEN took <= 100000 THEN 5 WHEN took <= 300000 THEN 6
            ELSE 7 END
    FROM known LEFT JOIN heard USING (run_id)
    WHERE ended_at IS NOT NULL AND merged_into IS NULL AND kind <> 'command'
)
SELECT 60, at - at % 3600000, agent_id, model, channel, 0, sum(turns), sum(failed), sum(stopped), sum(calls), sum(input),
    sum(cached), sum(output), sum(cost), sum(took), sum((took_class = 0)::int), sum((took_class = 1)::int),
    sum((took_class = 2)::int), sum((took_class = 3)::int), sum((took_class = 4)::int), sum((took_class = 5)::int),
    sum((took_class = 6)::int), sum((took_class = 7)::int)
FROM counted GROUP BY at - at % 3600000, agent_id, model, channel;
