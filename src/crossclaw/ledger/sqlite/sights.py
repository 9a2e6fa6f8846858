"""A sight as conditions on rows of `sessions`. Each part is a fixed text; values are bound."""

from crossclaw.domain.sight import Sight
from crossclaw.ledger.sqlite.rows import to_json

_OF_AGENTS = "agent_id IN (SELECT value FROM json_each(?))"
_LIKE_AGENTS = "EXISTS (SELECT 1 FROM json_each(?) named WHERE agent_id GLOB named.value)"

# UNION, not UNION ALL: whatever circle an imported store may hold, each session comes once.
_IN_TREE = (
    "key IN (WITH RECURSIVE tree(key) AS (SELECT value FROM json_each(?) UNION "
    "SELECT s.key FROM tree JOIN sessions s ON s.spawned_by = tree.key) SELECT key FROM tree)"
)

LINE = (
    "WITH RECURSIVE line(key) AS (SELECT ? UNION SELECT s.spawned_by FROM line "
    "JOIN sessions s ON s.key = line.key WHERE s.spawned_by IS NOT NULL) SELECT key FROM line"
)

Condition = tuple[str, str]


_NOTHING = "? = ''"
_AMONG = "key IN (SELECT value FROM json_each(?))"

# An exchange is looked up from both of its ends, each by its own index.
_PARTNERS = (
    "EXISTS (SELECT 1 FROM (SELECT ? AS given) g WHERE key = given ->> '$.own' "
    "OR spawned_by = given ->> '$.own' "
    "OR key IN (SELECT value FROM json_each(given, '$.given')) "
    "OR EXISTS (SELECT 1 FROM exchanges WHERE requester_key = given ->> '$.own' AND target_key = key) "
    "OR EXISTS (SELECT 1 FROM exchanges WHERE requester_key = key AND target_key = given ->> '$.own'))"
)


def conditions(sight: Sight) -> list[Condition]:
    if sight.everything:
        return []
    found: list[Condition] = []
    if sight.agents is not None:
        found.append(_agents(sight.agents))
    if sight.key is not None:
        found.append(("key = ?", sight.key))
    if sight.spawned_by is not None:
        found.append(("spawned_by = ?", sight.spawned_by))
    if sight.keys is not None:
        found.append((_AMONG, to_json(sorted(sight.keys))))
    if sight.partners is not None:
        found.append((_PARTNERS, to_json(sight.partners)))
    found += [(_IN_TREE, to_json(sorted(roots))) for roots in sight.trees]
    return found or [(_NOTHING, "nothing was given")]


def _agents(names: tuple[str, ...]) -> Condition:
    if any("*" in name for name in names):
        return _LIKE_AGENTS, to_json([_glob(name) for name in names])
    return _OF_AGENTS, to_json(names)


def _glob(name: str) -> str:
    """The name with `?` and `[` escaped: only `*` is special in our patterns, but these are in
    SQLite's too."""
    return name.replace("[", "[[]").replace("?", "[?]")
