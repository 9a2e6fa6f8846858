"""OpenClaw's exec-approvals.json: its rules for commands, and the programs that were allowed for good.

A rule is kept at least as strict as it was. One that cannot be kept so is left out and reported: its commands
are asked about again.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.aliases import Tell
from crossclaw.domain.approvals import ASK, SECURITY, ExecRule, StandingGrant
from crossclaw.domain.ids import Ids
from crossclaw.domain.untrusted import decode
from crossclaw.ledger.openclaw import SHARED_STORE, SharedStore
from crossclaw.policy.approvals import EVERYBODY, EXEC, can_run_others
from crossclaw.sandbox.files import read_file

FILE = "exec-approvals.json"
BYTES_MAX = 10_000_000  # of that file; ten thousand entries have two
ENTRIES_MAX = 1_000  # of one agent
BY = "exec-approvals.json"


def find_approvals(folder: Path) -> Iterator[bytes]:
    """The stored approvals: a file until OpenClaw 2026.2, a table in 2026.9."""
    if (raw := read_file(folder, FILE, BYTES_MAX)) is not None:
        yield raw
    store = folder / SHARED_STORE
    if store.is_file() and not store.is_symlink():
        with closing(SharedStore(store)) as opened:
            yield from (raw for raw in opened.approvals() if len(raw) <= BYTES_MAX)


def read_approvals(raw: bytes, home: Path, at: int, ids: Ids, remark: Tell) -> list[StandingGrant]:
    """The grants in a file. Raises ValueError if it is no such file."""
    try:
        written = decode(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"{FILE} is no JSON: {error}") from None
    if not isinstance(written, dict):
        raise ValueError(f"{FILE} is no object")
    found: list[StandingGrant] = []

    def add(agent_id: str, **more: Any) -> None:
        grant = StandingGrant(
            grant_id=ids.short(), agent_id=agent_id, tool=EXEC, created_at=at, granted_by=BY, **more
        )
        found.append(grant)

    if (rule := _rule(written.get("defaults"))) is not None:
        add(EVERYBODY, rule=rule)
    agents = written.get("agents")
    for name, section in (agents if isinstance(agents, dict) else {}).items():
        agent_id = "main" if name == "default" else normalize_agent_id(str(name))
        if name == "*":
            agent_id = EVERYBODY
        if (rule := _rule(section)) is not None:
            add(agent_id, rule=rule)
        for pattern in _patterns(agent_id, section, home, remark):
            add(agent_id, program=pattern, pattern=True)
    return found


def name_of(grant: StandingGrant) -> str:
    """An id for an imported grant: the same for the same entry, whatever was done with it here."""
    rule = f"{grant.rule.security} {grant.rule.ask}" if grant.rule is not None else ""
    return f"{grant.agent_id} {grant.program or rule}"


def _rule(section: Any) -> ExecRule | None:
    """The section's rule; an unknown word counts as the strictest."""
    if not isinstance(section, dict):
        return None
    security, ask = section.get("security"), section.get("ask")
    if security is None and ask is None:
        return None
    rule = ExecRule(
        "full" if security is None else security if security in SECURITY else "deny",
        "off" if ask is None else ask if ask in ASK else "always",
    )
    return None if rule == ExecRule() else rule


def _patterns(agent_id: str, section: Any, home: Path, remark: Tell) -> Iterator[str]:
    entries = section.get("allowlist") if isinstance(section, dict) else None
    if not isinstance(entries, list):
        return
    if agent_id == EVERYBODY and entries:
        remark(
            f"{FILE}: programs that are allowed to every agent are asked about: lists are per agent"
        )
        return
    if len(entries) > ENTRIES_MAX:
        remark(f"{FILE}: of agent {agent_id} only the first {ENTRIES_MAX} entries are taken")
    for entry in entries[:ENTRIES_MAX]:
        pattern = entry.get("pattern") if isinstance(entry, dict) else entry
        if not isinstance(pattern, str) or not pattern.strip():
            continue
        pattern = pattern.strip()
        why = _why_not(pattern, entry)
        if why is not None:
            remark(f"{FILE}: {pattern} of agent {agent_id} is asked about again: {why}")
            continue
        yield str(home) + pattern[1:] if pattern.startswith("~/") else pattern


def _why_not(pattern: str, entry: Any) -> str | None:
    if isinstance(entry, dict) and entry.get("argPattern"):
        return "its arguments are kept in a form that only OpenClaw reads"
    if not pattern.startswith(("/", "~/")):
        return "it is no path"
    if can_run_others(pattern):
        return "it runs what its arguments say, so it is allowed only with the arguments"
    return None
