"""`sessions export`: a conversation, or all of them, as files that need no gateway to be read."""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from crossclaw.cli.bars import Counted, counted
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, Command, Parser, gateway_options
from crossclaw.cli.naming import find_session
from crossclaw.cli.past import plain_text
from crossclaw.cli.peer import READ, Peer
from crossclaw.cli.running import ask
from crossclaw.cli.say import out
from crossclaw.display.conversation import Said, conversation
from crossclaw.transcripts.jsonl import VERSION, iso_time

_WINDOW = 200  # entries of one read; a window that weighs too much comes in several
_ROWS = 200  # sessions of one page of the table
_MORE = """Without --out it goes to standard output. A file that is there already is kept, unless --force is given.
With --all, --out is a folder: each session becomes a file in it."""
_SUFFIX = {"jsonl": ".jsonl", "markdown": ".md"}


def _arguments(parser: Parser) -> None:
    parser.add_argument("session", nargs="?", help="key, session id, name or label")
    parser.add_argument("--all", action="store_true", help="every session, those put away as well")
    parser.add_argument("--out", metavar="PATH", help="the file; with --all the folder")
    parser.add_argument(
        "--format", choices=tuple(_SUFFIX), default="jsonl", help="for programs, or for people"
    )
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    gateway_options(parser)


def _export(arguments: Arguments) -> int:
    if arguments.all == bool(arguments.session):
        raise UsageError(
            "say which session, or --all and a folder",
            hint="Example: crossclaw sessions export main --out main.jsonl",
        )
    if arguments.all and not arguments.out:
        raise UsageError(
            "--all needs --out: the folder for the files",
            hint="Example: crossclaw sessions export --all --out conversations",
        )
    if not arguments.all and arguments.out and Path(arguments.out).is_dir():
        raise UsageError(
            f"{arguments.out} is a folder; --out is the file to write",
            hint=f"Example: --out {Path(arguments.out) / 'session.jsonl'}",
        )

    async def work(peer: Peer) -> int:
        export = _Export(peer, arguments)
        if arguments.all:
            return await export.all(Path(arguments.out))
        return await export.one(await find_session(peer, arguments.session))

    return ask(arguments, READ, work=work)


class _Export:
    def __init__(self, peer: Peer, arguments: Arguments) -> None:
        self._peer = peer
        self._format: str = arguments.format
        self._out = Path(arguments.out) if arguments.out else None
        self._force: bool = arguments.force
        self._timeout_s: float = arguments.timeout

    async def one(self, key: str) -> int:
        with counted("entries") as bar:
            if self._out is None:
                async for text in self._texts(key, bar):
                    out(text, end="")
                return Exit.OK
            await self._write(key, self._out, bar)
        out(f"{key} is in {self._out}")
        return Exit.OK

    async def all(self, folder: Path) -> int:
        _made(folder)
        keys = await self._keys()
        with counted("sessions", len(keys)) as bar:
            for done, key in enumerate(keys, 1):
                await self._write(key, folder / file_name(key, _SUFFIX[self._format]), None)
                bar(done, len(keys))
        out(f"{folder} has {len(keys):,} files, one a session")
        return Exit.OK

    async def _keys(self) -> list[str]:
        found: dict[str, None] = {}
        for archived in (False, True):
            await self._gather(found, archived)
        await self._gather(found, False, only_news=True)
        return list(found)

    async def _gather(
        self, found: dict[str, None], archived: bool, only_news: bool = False
    ) -> None:
        """The newest come first: one that is spoken to while we read goes to the front, where a second look
        finds it, and ends at the first page that it knows."""
        offset = 0
        while True:
            params = {"archived": archived, "limit": _ROWS, "offset": offset}
            rows = (await self._call("sessions.table", params))["rows"]
            before = len(found)
            found.update(dict.fromkeys(row["key"] for row in rows))
            if not rows or (only_news and len(found) == before):
                return
            offset += len(rows)

    async def _write(self, key: str, path: Path, bar: Counted | None) -> None:
        with _whole(path, force=self._force) as file:
            async for text in self._texts(key, bar):
                file.write(text)

    async def _texts(self, key: str, bar: Counted | None) -> AsyncGenerator[str]:
        """The head, then a text an entry, or a text of all where people read it."""
        found = await self._call("sessions.entries", {"key": key, "limit": 1})
        entries = self._entries(key, found.get("lastSeq", 0), bar)
        if self._format == "markdown":
            yield f"# {key}\n"
            yield _conversation([entry async for entry in entries])
            return
        yield _head(key, found.get("sessionId"))
        parent: str | None = None
        async for entry in entries:
            yield _line(entry, parent)
            parent = entry["entryId"]

    async def _entries(
        self, key: str, last_seq: int, bar: Counted | None
    ) -> AsyncGenerator[dict[str, Any]]:
        for low in range(0, last_seq, _WINDOW):
            high = min(low + _WINDOW, last_seq)
            for entry in await self._window(key, low, high):
                yield entry
            if bar is not None:
                bar(high, last_seq)

    async def _window(self, key: str, after: int, up_to: int) -> list[dict[str, Any]]:
        """Entries in order. A read gives the newest of its window, as many as a frame may carry."""
        found: list[dict[str, Any]] = []
        before: int | None = up_to + 1
        while before is not None:
            params = {"key": key, "after": after, "before": before, "limit": _WINDOW}
            page = await self._call("sessions.entries", params)
            found = [*page["entries"], *found]
            before = page.get("before") if page["entries"] else None
        return found

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        return await self._peer.call(method, params, timeout_s=self._timeout_s)


# ── how it is written ──────────────────────────────────────────────────────────────────────────


def _head(key: str, session_id: str | None) -> str:
    head = {"type": "session", "version": VERSION, "id": session_id, "key": key}
    return json.dumps(head, ensure_ascii=False) + "\n"


def _line(entry: dict[str, Any], parent_id: str | None) -> str:
    """As in the transcripts of the state folder; messages as the gateway shows them."""
    data = {"message": entry["message"]} if entry.get("message") else {"data": entry.get("note")}
    line = {
        "type": entry["type"],
        "id": entry["entryId"],
        "parentId": parent_id,
        "seq": entry["seq"],
        "timestamp": iso_time(entry["at"]),
        "runId": entry.get("runId"),
        **data,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


def _conversation(entries: list[dict[str, Any]]) -> str:
    messages = [entry["message"] for entry in entries if entry.get("message")]
    return "".join(_section(said) for said in conversation(messages, results=True))


def _section(said: Said) -> str:
    head, _, words = plain_text(said).partition("\n")
    return f"\n## {head}\n\n{words}\n"


def file_name(key: str, suffix: str) -> str:
    """Readable, and never the same for two keys."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", key).strip("-.")[:80]
    return f"{plain}-{sha256(key.encode()).hexdigest()[:8]}{suffix}"


@contextmanager
def _whole(path: Path, *, force: bool) -> Iterator[IO[str]]:
    """A file that is there when all of it is, readable by its owner."""
    if path.exists() and not force:
        raise CommandFailed(f"{path} is there already", hint="--force writes over it.")
    part = path.with_name(f".{path.name}.part")
    try:
        part.touch(mode=0o600)
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(f"{folder} is no folder to write to: {error.strerror}") from None


COMMANDS = {"export": Command(_arguments, _export, _MORE)}
