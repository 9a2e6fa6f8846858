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


def conditions(sight: Sight | None) -> list[Condition]:
    if sight is None:
        return []
    found: list[Condition] = []
    if sight.agents is not None:
        found.append(_agents(sight.agents))
    if sight.key is not None:
        found.append(("key = ?", sight.key))
    if sight.spawned_by is not None:
        found.append(("spawned_by = ?", sight.spawned_by))
    return found + [(_IN_TREE, to_json(sorted(roots))) for roots in sight.trees]


def _agents(names: tuple[str, ...]) -> Condition:
    if any("*" in name for name in names):
        return _LIKE_AGENTS, to_json([_glob(name) for name in names])
    return _OF_AGENTS, to_json(names)


def _glob(name: str) -> str:
    """Only `*` is special in our patterns; `?` and `[` are in SQLite's too."""
    return name.replace("[", "[[]").replace("?", "[?]")
