"""`sessions export`: a conversation, or all of them, as files that need no gateway to be read."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from crossclaw.cli.bars import counted
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, gateway_options
from crossclaw.cli.naming import find_transcript
from crossclaw.cli.past import plain_text
from crossclaw.cli.running import ask
from crossclaw.cli.say import json_text, out, out_json_text
from crossclaw.client.peer import READ, GatewayPeer
from crossclaw.disk.private import make_folder, new_file
from crossclaw.display.cleaning import Clean
from crossclaw.display.conversation import ShownMessage, conversation
from crossclaw.domain.aliases import Counted
from crossclaw.domain.counts import count_of
from crossclaw.transcripts.jsonl import VERSION, iso_time

_WINDOW = 200  # entries of one read; a window that weighs too much comes in several
_ROWS = 200  # sessions of one page of the table
_MORE = """Without --out it goes to standard output. A file that is there already is kept, unless --force is given.
With --all or --all-ids, --out is a folder: each session, or each transcript of it, becomes a file in it.
A reset closes a transcript and begins another under the same key. --all-ids takes the closed ones too, the
oldest first; one alone is named by its session id."""
_SUFFIX = {"jsonl": ".jsonl", "markdown": ".md"}


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "session", nargs="?", help="key, name, label, or a session id of now or before"
    )
    parser.add_argument("--all", action="store_true", help="every session, archived ones as well")
    parser.add_argument(
        "--all-ids", action="store_true", help="with the transcripts from before each reset"
    )
    parser.add_argument(
        "--out", metavar="PATH", help="the file; with --all or --all-ids the folder"
    )
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
    whole_folder = arguments.all or arguments.all_ids
    if not whole_folder and arguments.out and Path(arguments.out).is_dir():
        raise UsageError(
            f"{arguments.out} is a folder; --out is the file to write",
            hint=f"Example: --out {Path(arguments.out) / 'session.jsonl'}",
        )

    async def work(peer: GatewayPeer) -> int:
        export = _Export(peer, arguments)
        if arguments.all:
            return await export.all(Path(arguments.out))
        named = await find_transcript(peer, arguments.session)
        if not arguments.all_ids:
            return await export.one(named)
        found = await export.transcripts(named)
        if arguments.out:
            return await export.files(found, Path(arguments.out))
        for transcript in found:
            await export.one(transcript.reference)
        return Exit.OK

    return ask(arguments, READ, work=work)


class _Transcript(NamedTuple):
    key: str
    session_id: str | None = None
    """The transcript's id; None for the current one, whichever that is."""

    @property
    def reference(self) -> str:
        return self.session_id or self.key


class _Export:
    def __init__(self, peer: GatewayPeer, arguments: Arguments) -> None:
        self._peer = peer
        self._format: str = arguments.format
        self._out = Path(arguments.out) if arguments.out else None
        self._force: bool = arguments.force
        self._timeout_s: float = arguments.timeout
        self._all_ids: bool = arguments.all_ids

    async def one(self, reference: str) -> int:
        with counted("entries") as bar:
            if self._out is None:
                async for text in self._texts(reference, bar):
                    self._show(text)
                return Exit.OK
            await self._write(reference, self._out, bar)
        out(f"{reference} is in {self._out}")
        return Exit.OK

    def _show(self, text: str) -> None:
        if self._format == "jsonl":
            out_json_text(Clean(text), end="")
        else:
            out(text, end="")

    async def all(self, folder: Path) -> int:
        found = [_Transcript(key) for key in await self._keys()]
        if self._all_ids:
            found = [each for named in found for each in await self.transcripts(named.key)]
        return await self.files(found, folder)

    async def files(self, found: list[_Transcript], folder: Path) -> int:
        _made(folder)
        of_what = "transcript" if self._all_ids else "session"
        with counted(f"{of_what}s", len(found)) as bar:
            for done, each in enumerate(found, 1):
                suffix = (f"-{each.session_id}" if each.session_id else "") + _SUFFIX[self._format]
                await self._write(each.reference, folder / file_name(each.key, suffix), None)
                bar(done, len(found))
        out(f"{folder} has {count_of(len(found), 'file')}, one a {of_what}")
        return Exit.OK

    async def transcripts(self, reference: str) -> list[_Transcript]:
        """The transcripts of a session, by its key or any of its ids, the oldest first; empty ones are left out."""
        found: list[_Transcript] = []
        offset, more = 0, True
        while more:
            params = {"key": reference, "offset": offset}
            answer = await self._call("sessions.transcripts", params)
            rows, more = answer["transcripts"], answer.get("more", False)
            found += [_Transcript(answer["key"], r["sessionId"]) for r in rows if r["entries"]]
            offset += len(rows)
        return found

    async def _keys(self) -> list[str]:
        found: dict[str, None] = {}
        for archived in (False, True):
            await self._gather(found, archived)
        await self._gather(found, False, only_news=True)
        return list(found)

    async def _gather(
        self, found: dict[str, None], archived: bool, only_news: bool = False
    ) -> None:
        """Gathers sessions, the newest first: one that is written to while we read moves to the front, where
        a second look finds it, and ends at the first page that it knows."""
        offset = 0
        while True:
            params = {"archived": archived, "limit": _ROWS, "offset": offset}
            rows = (await self._call("sessions.table", params))["rows"]
            before = len(found)
            found.update(dict.fromkeys(row["key"] for row in rows))
            if not rows or (only_news and len(found) == before):
                return
            offset += len(rows)

    async def _write(self, reference: str, path: Path, bar: Counted | None) -> None:
        with _whole(path, force=self._force) as file:
            async for text in self._texts(reference, bar):
                file.write(text)

    async def _texts(self, reference: str, bar: Counted | None) -> AsyncGenerator[str]:
        """The export's texts: the head, then one an entry, or one of all for people."""
        found = await self._call("sessions.entries", {"key": reference, "limit": 1})
        key = found["key"]
        known = found.get("sessionId")
        if known is None or (":" not in reference and reference not in (key, known)):
            raise CommandFailed(
                f"the transcript {reference} cannot be read: the gateway has {key} for it",
                hint="Nothing was written for it. crossclaw doctor looks at the store.",
            )
        entries = self._entries(reference, found.get("lastSeq", 0), bar)
        if self._format == "markdown":
            yield f"# {key}\n" + (f"\nsession id {reference}\n" if reference != key else "")
            yield _conversation([entry async for entry in entries])
            return
        yield _head(key, found.get("sessionId"))
        parent: str | None = None
        async for entry in entries:
            yield _line(entry, parent)
            parent = entry["entryId"]

    async def _entries(
        self, reference: str, last_seq: int, bar: Counted | None
    ) -> AsyncGenerator[dict[str, Any]]:
        for low in range(0, last_seq, _WINDOW):
            high = min(low + _WINDOW, last_seq)
            for entry in await self._window(reference, low, high):
                yield entry
            if bar is not None:
                bar(high, last_seq)

    async def _window(self, reference: str, after: int, up_to: int) -> list[dict[str, Any]]:
        """Entries in order. A read gives the oldest of its window, as many as a frame may carry."""
        found: list[dict[str, Any]] = []
        cursor: int | None = after
        while cursor is not None:
            params = {"key": reference, "after": cursor, "before": up_to + 1, "limit": _WINDOW}
            params["whole"] = True
            page = await self._call("sessions.entries", params)
            found += page["entries"]
            cursor = page.get("after")
        return found

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        return await self._peer.call(method, params, timeout_s=self._timeout_s)


# ── how it is written ──────────────────────────────────────────────────────────────────────────


def _head(key: str, session_id: str | None) -> str:
    head = {"type": "session", "version": VERSION, "id": session_id, "key": key}
    return json_text(head) + "\n"


def _line(entry: dict[str, Any], parent_id: str | None) -> str:
    """An entry's line as in the transcripts of the state folder; messages as the gateway shows them."""
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
    return json_text(line) + "\n"


def _conversation(entries: list[dict[str, Any]]) -> str:
    messages = [entry["message"] for entry in entries if entry.get("message")]
    return "".join(_section(said) for said in conversation(messages, results=True))


def _section(said: ShownMessage) -> str:
    head, _, words = plain_text(said).partition("\n")
    return f"\n## {head}\n\n{words}\n"


def file_name(key: str, suffix: str) -> str:
    """A readable file name, and never the same for two keys."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", key).strip("-.")[:80]
    return f"{plain}-{sha256(key.encode()).hexdigest()[:8]}{suffix}"


@contextmanager
def _whole(path: Path, *, force: bool) -> Iterator[IO[str]]:
    """A file that appears when all of it is written, readable by its owner."""
    try:
        with new_file(path, replace=force) as file:
            yield file
    except FileExistsError:
        raise CommandFailed(f"{path} is there already", hint="--force writes over it.") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror or error}") from None


def _made(folder: Path) -> None:
    try:
        make_folder(folder)
    except OSError as error:
        raise CommandFailed(f"{folder} is no folder to write to: {error.strerror}") from None


COMMANDS = {"export": CommandSpec(_arguments, _export, _MORE)}
