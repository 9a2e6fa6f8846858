"""`backup`, `restore`, `verify`: all data of a gateway in one file, and back.

The store is copied at one moment while the gateway goes on working. What was written is read back and compared
before the command says that it is done. Transcripts for people are not copied: the gateway writes them anew
from the store.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from crossclaw import __version__
from crossclaw.cli.bars import at_work, counted
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option
from crossclaw.cli.place import StateLocation, find_place_anyhow
from crossclaw.cli.say import note, out, out_json
from crossclaw.disk.archive import (
    ArchiveWriter,
    Manifest,
    Member,
    Put,
    checked,
    is_sealed,
    write_archive,
)
from crossclaw.disk.private import make_folder, new_binary_file
from crossclaw.domain.counts import count_of

PASSPHRASE_VARIABLE = "CROSSCLAW_BACKUP_PASSPHRASE"
PASSPHRASE_CHARS_MIN = 8
STORE, CONFIG, CHANNELS = "crossclaw.sqlite", "openclaw.json", "channels"
DATABASE = b"SQLite format 3\x00"
BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Written(NamedTuple):
    manifest: Manifest
    skipped: list[str]
    """Names that were left out: links, pipes and what cannot be read."""


def _backup_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="what to write; it must not exist yet")
    parser.add_argument(
        "--encrypt",
        action="store_true",
        help="ask for a passphrase; takes credentials/ and the keys of channels/ along",
    )
    json_option(parser)


def _backup(arguments: Arguments) -> int:
    place, path = find_place_anyhow(), Path(arguments.file).expanduser()
    if place.config.ledger.url_in(place.environ) is not None:
        raise CommandFailed(
            "the ledger is kept in PostgreSQL: this command copies a ledger that is a file",
            hint="Back the database up with pg_dump, and the state folder beside it (docs/postgres.md).",
        )
    if not place.paths.ledger_path.exists():
        raise CommandFailed(
            f"there is nothing to back up: {place.paths.state_dir} has no store yet",
            hint="OPENCLAW_STATE_DIR names another folder.",
        )
    if path.exists():
        raise CommandFailed(f"{path} is there already", hint="Name a file that is not, or move it.")
    passphrase = _new_passphrase(ask=arguments.encrypt)
    with tempfile.TemporaryDirectory(prefix=".crossclaw-backup-", dir=path.parent) as folder:
        written = _write(place, path, passphrase, Path(folder) / STORE)
    with at_work("reading it back"):
        _verify(path, passphrase)
    _tell_backup(place, path, written, passphrase, arguments)
    return Exit.OK


def _write(place: StateLocation, path: Path, passphrase: str | None, copy: Path) -> Written:
    from crossclaw.ledger.sqlite.copying import check_store, copy_store  # noqa: PLC0415  brings apsw

    with counted("copying the store") as progress:
        copy_store(place.paths.ledger_path, copy, progress)
    facts: dict[str, Any] = {
        "release": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "credentials": bool(passphrase),
        **check_store(copy),
    }
    skipped: list[str] = []
    with at_work("writing") as tell, write_archive(path, passphrase) as archive:
        for name, file in _contents(place, copy, skipped, credentials=bool(passphrase)):
            tell(f"writing {name}")
            if not _add(archive, name, file):
                note(f"{name} became shorter while it was read; it is kept as far as it was")
        archive.finish(facts)
        return Written(Manifest(facts, archive.members), skipped)


def _add(archive: ArchiveWriter, name: str, file: IO[bytes]) -> bool:
    with file:
        return archive.add(name, file, os.fstat(file.fileno()).st_size)


def _contents(
    place: StateLocation, copy: Path, skipped: list[str], *, credentials: bool
) -> Iterator[tuple[str, IO[bytes]]]:
    state = place.paths.state_dir
    yield STORE, copy.open("rb")
    if place.paths.config_path.is_file():
        yield CONFIG, place.paths.config_path.open("rb")
    folders = sorted(
        entry.name for entry in os.scandir(state) if entry.name.startswith("workspace")
    )
    for name in [*folders, *(["credentials"] if credentials else [])]:
        yield from _files_below(state, name, skipped)
    if credentials and os.path.lexists(state / CHANNELS):
        yield from _channel_files(state, copy.parent, skipped)


def _channel_files(
    state: Path, drafts: Path, skipped: list[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files of chat accounts, such as the keys of a Matrix device. Their databases are copied at one
    moment, as the store is."""
    from crossclaw.ledger.sqlite.copying import copy_store  # noqa: PLC0415  brings apsw

    for number, (name, file) in enumerate(_files_below(state, CHANNELS, skipped)):
        is_database = file.read(len(DATABASE)) == DATABASE
        file.seek(0)
        if is_database:
            file.close()
            draft = drafts / f"{CHANNELS}{number}"
            copy_store(state / name, draft)
            yield name, draft.open("rb")
        elif name.endswith(BESIDE_DATABASE):
            file.close()  # in the copy already
        else:
            yield name, file


def _files_below(state: Path, name: str, skipped: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The files below a folder, opened by folder handles: an agent that swaps a folder for a link meanwhile
    leads nowhere else."""
    top = state / name
    if top.is_symlink() or not top.is_dir():
        skipped.append(name)
        return
    for folder, folders, files, descriptor in os.fwalk(top, follow_symlinks=False):
        here = Path(folder).relative_to(state)
        skipped += [str(here / each) for each in folders if _is_link(each, descriptor)]
        for each in sorted(files):
            file = _open_regular(each, descriptor)
            if file is None:
                skipped.append(str(here / each))
            else:
                yield (here / each).as_posix(), file


def _is_link(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _open_regular(name: str, folder: int) -> IO[bytes] | None:
    try:
        descriptor = os.open(name, _OPEN, dir_fd=folder)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


def _elsewhere(place: StateLocation) -> list[Path]:
    paths, agents = place.paths, place.config.agents
    folders = dict.fromkeys(paths.workspace(agent, agents) for agent in agents.ids())
    return [each for each in folders if not each.is_relative_to(paths.state_dir) and each.exists()]


def _tell_backup(
    place: StateLocation, path: Path, written: Written, passphrase: str | None, arguments: Arguments
) -> None:
    facts = written.manifest.facts
    if arguments.json:
        out_json(
            {"path": str(path), "bytes": path.stat().st_size, "skipped": written.skipped, **facts}
        )
        return
    sessions = count_of(facts["sessions"], "session")
    out(f"{path}: {sessions}, {facts['entries']:,} messages and notes, read back and whole")
    for folder in _elsewhere(place):
        note(f"not in it: {folder}, a workspace outside of the state folder")
    for name in written.skipped:
        note(f"left out: {name} (no regular file, or not readable)")
    if not passphrase:
        note(
            "Keys and tokens in credentials/ and channels/ are not in it; --encrypt takes them along."
        )
        note("It holds every conversation, and the config as it is: keep it private.")


def _restore_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="a backup; the state folder must be empty or missing")
    json_option(parser)


def _restore(arguments: Arguments) -> int:
    path, state = Path(arguments.file).expanduser(), find_place_anyhow().paths.state_dir
    _refuse_filled(state)
    passphrase = _known_passphrase(path)
    make_folder(state.parent)
    with tempfile.TemporaryDirectory(prefix=".crossclaw-restore-", dir=state.parent) as folder:
        draft = Path(folder) / "state"
        make_folder(draft)
        with at_work("reading the backup"):
            manifest = checked(path, passphrase, lambda member: _into(draft, member))
            _check_store(draft / STORE)
        _refuse_filled(state)
        draft.rename(state)  # over an empty folder, and over nothing else
    if arguments.json:
        out_json({"path": str(state), **manifest.facts})
    else:
        sessions = count_of(manifest.facts.get("sessions", 0), "session")
        out(f"restored into {state}: {sessions} of {manifest.facts.get('made')}")
        if not manifest.facts.get("credentials"):
            note("Keys and tokens were not in it: the next start makes a new gateway token.")
    return Exit.OK


def _refuse_filled(state: Path) -> None:
    """Refuses a folder that is not empty: a running gateway has at least its lock there."""
    if state.is_symlink() or (state.exists() and (not state.is_dir() or any(state.iterdir()))):
        raise CommandFailed(
            f"{state} is not empty, and a restore never overwrites",
            hint="Stop the gateway and move the folder away, or set OPENCLAW_STATE_DIR to a new one.",
        )


@contextmanager
def _into(folder: Path, member: Member) -> Generator[Put]:
    target = folder / member.name
    make_folder(target.parent)
    with new_binary_file(target, replace=False) as file:
        yield file.write


def _verify_arguments(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", help="a backup; without one, this folder's store")
    json_option(parser)


def _verify_command(arguments: Arguments) -> int:
    if arguments.file:
        path = Path(arguments.file).expanduser()
        facts = _verify(path, _known_passphrase(path)).facts
    else:
        path = find_place_anyhow().paths.ledger_path
        facts = _check_store(path)
    if arguments.json:
        out_json({"path": str(path), **facts})
    else:
        out(f"{path} is whole: {_in_words(facts)}")
    return Exit.OK


def _in_words(facts: dict[str, Any]) -> str:
    counts = (("sessions", "session"), ("entries", "entry"), ("runs", "run"), ("jobs", "job"))
    words = [count_of(facts[name], noun, name) for name, noun in counts if name in facts]
    if made := facts.get("made"):
        keys = "with keys and tokens" if facts.get("credentials") else "without keys and tokens"
        words += [f"made {made} by release {facts.get('release')}", keys]
    return ", ".join(words)


def _verify(path: Path, passphrase: str | None) -> Manifest:
    """Reads all of a backup and opens its store."""
    with tempfile.TemporaryDirectory(prefix="crossclaw-verify-") as folder:
        take = _only_the_store(Path(folder))
        manifest = checked(path, passphrase, take)
        _check_store(Path(folder) / STORE)
        return manifest


def _only_the_store(folder: Path) -> Callable[[Member], Any]:
    @contextmanager
    def take(member: Member) -> Generator[Put]:
        if member.name == STORE:
            with _into(folder, member) as put:
                yield put
        else:
            yield lambda data: None

    return take


def _check_store(path: Path) -> dict[str, int]:
    from crossclaw.ledger.sqlite.copying import check_store  # noqa: PLC0415  brings apsw

    if not path.exists():
        raise CommandFailed(f"there is no store at {path}")
    return check_store(path)


def _new_passphrase(*, ask: bool) -> str | None:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if not given and ask:
        given = _ask_passphrase("A passphrase for it: ")
        if given != _ask_passphrase("Once more: "):
            raise UsageError("the two are not the same; nothing was written")
    if given is not None and len(given) < PASSPHRASE_CHARS_MIN:
        raise UsageError(f"a passphrase has at least {PASSPHRASE_CHARS_MIN} characters")
    return given


def _known_passphrase(path: Path) -> str | None:
    if not path.is_file():
        raise CommandFailed(f"there is no file {path}")
    if not is_sealed(path):
        return None
    return os.environ.get(PASSPHRASE_VARIABLE) or _ask_passphrase("Its passphrase: ")


def _ask_passphrase(question: str) -> str:
    import getpass  # noqa: PLC0415  only where somebody is asked
    import sys  # noqa: PLC0415

    if not sys.stdin.isatty():
        raise UsageError(
            f"it needs a passphrase, and nobody is at a terminal: set {PASSPHRASE_VARIABLE}"
        )
    return getpass.getpass(question)


COMMANDS = {
    "backup": CommandSpec(
        _backup_arguments,
        _backup,
        more="The gateway may run meanwhile. In it: the store, the config and the agents' workspaces in the state\n"
        f"folder. With --encrypt (or {PASSPHRASE_VARIABLE} set) also credentials/ and channels/, and all of it is encrypted.",
    ),
    "restore": CommandSpec(_restore_arguments, _restore),
    "verify": CommandSpec(_verify_arguments, _verify_command),
}
