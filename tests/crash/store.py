"""What the gateway has left on disk, read after it has stopped."""

from collections import defaultdict
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossclaw.domain.keys import key_of
from crossclaw.domain.messages import AssistantMessage, ToolResultMessage, UserMessage, words_of
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.domain.spawns import Spawn
from crossclaw.ledger.operations import Delivery, Export
from crossclaw.ledger.sqlite.rows import (
    DELIVERY,
    ENTRY,
    EXPORT,
    RUN,
    delivery_of,
    entry_of,
    export_of,
    run_of,
)
from crossclaw.ledger.sqlite.spawns import find_spawn
from crossclaw.ledger.sqlite.store import open_reader
from tests.crash.furnishing import STAMPS
from tests.stores import ON_SERVER, OpenStore


def open_left(folder: Path) -> OpenStore:
    """What it has left, in its file or in its database."""
    if ON_SERVER:
        from tests.databases import ServedStore, url_of_folder  # noqa: PLC0415  an extra

        return ServedStore(url_of_folder(folder))
    return open_reader(folder / "state" / "crossclaw.sqlite")


@dataclass(frozen=True, slots=True)
class Store:
    folder: Path
    db: Any
    runs: dict[str, Run]
    entries: dict[str, list[Entry]]
    """By session id, in order."""
    of_run: dict[str, list[Entry]]
    users: dict[str, list[Entry]]
    """Messages of people by the token in them."""
    exports: list[Export]
    deliveries: list[Delivery]
    spawns: list[Spawn]
    reports: dict[str, list[Entry]]
    """What children have told their parents, by the child's key."""
    timers: set[str]
    stamps: list[tuple[str, str]]
    """What tools have done to the world: run and tool call."""
    complaints: list[str]

    @classmethod
    @contextmanager
    def read(cls, folder: Path, tokens: set[str]) -> Generator["Store"]:
        with closing(open_left(folder)) as db:
            entries, of_run, users, reports = _sort(db, tokens)
            runs = map(run_of, db.execute(f"SELECT {RUN} FROM runs ORDER BY id"))
            yield cls(
                folder=folder,
                db=db,
                runs={run.run_id: run for run in runs},
                entries=entries,
                of_run=of_run,
                users=users,
                exports=list(map(export_of, db.execute(f"SELECT {EXPORT} FROM transcripts"))),
                deliveries=list(
                    map(delivery_of, db.execute(f"SELECT {DELIVERY} FROM outbox ORDER BY id"))
                ),
                spawns=_read_spawns(db),
                reports=reports,
                timers={key for (key,) in db.execute("SELECT timer_key FROM timers")},
                stamps=_read_stamps(folder / STAMPS),
                complaints=_read_complaints(folder / "victim.log"),
            )

    @property
    def sessions(self) -> Path:
        """Where the people's copies lie."""
        return self.folder / "state" / "sessions"

    @property
    def deleted(self) -> set[str]:
        """Children that were not to be kept."""
        return {spawn.child_key for spawn in self.spawns if spawn.cleanup == "delete"}

    def key_of(self, session_id: str) -> str | None:
        return next((each.key for each in self.exports if each.session_id == session_id), None)

    def results(self, run_id: str) -> list[ToolResultMessage]:
        messages = [entry.message for entry in self.of_run[run_id]]
        return [message for message in messages if isinstance(message, ToolResultMessage)]

    def answers(self, run_id: str) -> list[AssistantMessage]:
        messages = [entry.message for entry in self.of_run[run_id]]
        return [message for message in messages if isinstance(message, AssistantMessage)]

    def count(self, sql: str) -> int:
        return int(self.db.execute(sql).get)


HELD = "owner IS NOT NULL"
"""Runs that a process has claimed and not given back."""
OPEN = "ended_at IS NULL"


def find_runs(folder: Path, where: str) -> set[str]:
    if ON_SERVER:
        with closing(open_left(folder)) as served:
            if "runs" not in served.tables():  # type: ignore[attr-defined]  # a served one has it
                return set()
            return {
                run_id for (run_id,) in served.execute(f"SELECT run_id FROM runs WHERE {where}")
            }
    path = folder / "state" / "crossclaw.sqlite"
    # A rollback journal: it was killed while the file was made, before the first table.
    if not path.exists() or path.with_name(f"{path.name}-journal").exists():
        return set()
    with closing(open_reader(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall():
            return set()
        return {run_id for (run_id,) in db.execute(f"SELECT run_id FROM runs WHERE {where}")}


def count_left(folder: Path) -> int:
    """Runs that are open, and children that are still to be deleted, or whose copies are."""
    with closing(open_left(folder)) as db:
        to_delete = db.execute("SELECT count(*) FROM timers WHERE kind != 'archive'").get
        return int(to_delete) + int(db.execute(f"SELECT count(*) FROM runs WHERE {OPEN}").get)


Entries = defaultdict[str, list[Entry]]


def is_step(run_id: str) -> bool:
    """A round or an announce: nobody outside sent its message, the gateway wrote it."""
    return run_id.endswith(":announce") or ":round-" in run_id


def _sort(db: Any, tokens: set[str]) -> tuple[Entries, Entries, Entries, Entries]:
    by_session: Entries = defaultdict(list)
    by_child: Entries = defaultdict(list)
    by_run: Entries = defaultdict(list)
    by_token: Entries = defaultdict(list)
    for row in db.execute(f"SELECT {ENTRY} FROM entries ORDER BY session_id, seq"):
        entry = entry_of(row)
        by_session[entry.session_id].append(entry)
        by_run[entry.run_id or ""].append(entry)
        if child := reporting_child(entry):
            by_child[child].append(entry)
        elif isinstance(entry.message, UserMessage) and not is_step(entry.run_id or ""):
            # The last word is `re <token>`: those before it may name the token of a question.
            token = words_of(entry.message).split()[-1]
            by_token[token if token in tokens else "?"].append(entry)
    return by_session, by_run, by_token, by_child


def reporting_child(entry: Entry) -> str | None:
    origin = entry.message.provenance if isinstance(entry.message, UserMessage) else None
    reports = entry.run_id is None and origin is not None and origin.kind == "announce"
    return origin.source_session_key if reports and origin else None


def _read_spawns(db: Any) -> list[Spawn]:
    children = list(db.execute("SELECT child_key, agent_id FROM spawns"))
    found = [find_spawn(db, key_of(key, agent_id)) for key, agent_id in children]
    return [spawn for spawn in found if spawn is not None]


def _read_stamps(file: Path) -> list[tuple[str, str]]:
    if not file.exists():
        return []
    lines = [line.split() for line in file.read_text().splitlines()]
    return [(run_id, call_id) for run_id, call_id in lines]


def _read_complaints(file: Path) -> list[str]:
    if not file.exists():
        return []
    lines = file.read_text(errors="replace").splitlines()
    return [line for line in lines if " ERROR " in line or " CRITICAL " in line]
