"""Rehearsals: readable files that say which agents there are, what is said to them, and what the result must
be.

They are played by the rehearsal model on a gateway of their own (`crossclaw rehearse`); docs/rehearsing.md
shows how one is written. Those in `stage/` come along.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from crossclaw.config.syntax_errors import NotJson5, parse_json5
from crossclaw.domain.errors import Invalid

SHIPPED = ("two-agents", "team", "kill-me", "budget")
START_S_MAX = 60.0  # until a stage answers: a busy machine takes long to start a program
VARIABLES_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""The variables that the program of a stage gets: no keys."""
_KEPT = ("agents", "session", "tools", "messages")
"""Sections of a person's own config that a rehearsal takes over: the agents, and who may do what."""


class RehearsalAct(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """One thing that happens, and what is checked after it."""

    tell: str
    """The text that a person reads meanwhile."""
    say: str | None = None
    """A message, in the rehearsal model's lines (say:, tool:, ask:, wait:, …)."""
    to: str = "main"
    """An agent, or the key of a session."""
    kill: float | None = None
    """The seconds after which the gateway is killed, and started again."""
    within: float = 60.0
    """Seconds until all that was caused must have ended."""
    expect: str | None = None
    """Words that one of the last three messages in `to` must have in it: its answers, or what other agents said to it."""
    ends: str | None = None
    """How the last run of `to` must have ended: ok, failed, over budget, timed out, stopped."""


class RehearsalFile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    title: str
    about: str
    acts: list[RehearsalAct]
    config: dict[str, Any] | Literal["mine"] = {}
    """Settings of the gateway that plays it; "mine": your own agents, session and tool rules, with the rehearsal model."""


class StagedAct(msgspec.Struct, frozen=True):
    tell: str
    state: Literal["next", "now", "ok", "failed"] = "next"
    why: str | None = None


class Staged(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of a rehearsal, in the state folder of the gateway that plays it."""

    name: str
    title: str
    about: str
    acts: list[StagedAct]
    over: bool = False


def staged_path(state_dir: Path) -> Path:
    return state_dir / "rehearsal.json"


def read_shipped(name: str) -> RehearsalFile:
    text = (files("crossclaw.config") / "stage" / f"{name}.json5").read_text("utf-8")
    return parse_rehearsal(text, name)


def parse_rehearsal(text: str, name: str) -> RehearsalFile:
    try:
        return msgspec.convert(parse_json5(text), RehearsalFile)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {error}") from error
    except NotJson5 as error:
        raise Invalid(f"{name} is not JSON5: {error}") from error


def config_for(rehearsal: RehearsalFile, mine: dict[str, Any]) -> dict[str, Any]:
    """The config of the gateway on the stage. Models, keys, channels and folders of a person's own config are
    left out."""
    if rehearsal.config != "mine":
        return dict(rehearsal.config)
    kept = {name: mine[name] for name in _KEPT if name in mine}
    agents = _plain(kept.get("agents", {}))
    listed = [_plain(each) for each in agents.get("list", [])]
    entries = {id_: _plain(each) for id_, each in (agents.get("entries") or {}).items()}
    agents["defaults"] = _plain(agents.get("defaults") or {})
    return {
        **kept,
        "agents": {
            **agents,
            **({"list": listed} if listed else {}),
            **({"entries": entries} if entries else {}),
        },
    }


def _plain(agent: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in agent.items()
        if name not in ("model", "models", "workspace", "agentDir", "imageModel", "heartbeat")
    }
