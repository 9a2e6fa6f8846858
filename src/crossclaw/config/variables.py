"""Variables: `${NAME}` in a text becomes the variable's value; `$${NAME}` stays `${NAME}`."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from crossclaw.domain.aliases import KeyPath

_VARIABLE = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")
_NOT_VARIABLES = ("vars", "shellEnv")


class Missing(NamedTuple):
    path: KeyPath
    name: str


def variables_of(raw: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment wins over `env.vars`; a variable that is set to nothing is not set."""
    given = {name: value for name, value in environ.items() if value}
    written = {
        name: substitute(value, given, [])
        for name, value in written_variables(raw).items()
        if isinstance(value, str) and value
    }
    return written | given


def written_variables(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of `env.vars`, and the texts that OpenClaw lets stand directly under `env`."""
    env = raw.get("env")
    if not isinstance(env, dict):
        return {}
    direct = {k: v for k, v in env.items() if k not in _NOT_VARIABLES and isinstance(v, str)}
    nested = env.get("vars")
    return direct | nested if isinstance(nested, dict) else direct


def substitute(
    value: Any, variables: Mapping[str, str], missing: list[Missing], path: KeyPath = ()
) -> Any:
    """A copy with the variables put in. One that is not set is left as it stands and noted."""
    if isinstance(value, str):
        return _in_text(value, variables, missing, path) if "${" in value else value
    if isinstance(value, dict):
        return {k: substitute(v, variables, missing, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [substitute(v, variables, missing, (*path, i)) for i, v in enumerate(value)]
    return value


def without_references(
    value: Any, variables: Mapping[str, str], missing: list[Missing], path: KeyPath = ()
) -> Any:
    """A copy in which `{ source: "env", id: NAME }` is an empty text where that variable is not set, and noted."""
    match value:
        case {"source": "env", "id": str(name)} if not variables.get(name):
            missing.append(Missing(path, name))
            return ""
        case dict():
            return {
                key: without_references(child, variables, missing, (*path, key))
                for key, child in value.items()
            }
        case list():
            return [
                without_references(child, variables, missing, (*path, index))
                for index, child in enumerate(value)
            ]
    return value


def is_switched_off(raw: Mapping[str, Any], path: KeyPath) -> bool:
    """Whether an object on the way says `enabled: false` or `disabled: true`."""
    value: Any = raw
    for step in path:
        if isinstance(value, dict) and (
            value.get("enabled") is False or value.get("disabled") is True
        ):
            return True
        value = value[step] if isinstance(value, dict | list) else {}  # type: ignore[index]
    return False


def _in_text(text: str, variables: Mapping[str, str], missing: list[Missing], path: KeyPath) -> str:
    def put(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped:
            return match[0][1:]
        if name not in variables:
            missing.append(Missing(path, name))
            return match[0]
        return variables[name]

    return _VARIABLE.sub(put, text)
