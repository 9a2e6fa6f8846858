"""What only the owner may read is made so whatever the umask says, and what others may have written is refused."""

import errno
import grp
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from crossclaw.app.opening import open_gateway
from crossclaw.app.parts import GatewayInputs
from crossclaw.cli.log import Log
from crossclaw.config import Config, Paths, find_paths
from crossclaw.config.file import ConfigFile
from crossclaw.config.token import gateway_token
from crossclaw.disk.guarding import guard
from crossclaw.disk.private import NotReplaced, make_file, make_folder, new_file, write_file
from crossclaw.domain.errors import ConfigInvalid, StoreLocked
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.ledger.sqlite.store import FolderLock
from crossclaw.transcripts.files import Files

NOBODY = 65_534
SOURCE = Path(__file__).parents[2] / "src" / "crossclaw"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({}, tmp_path / "home" / "of" / "somebody")


async def _open_store(paths: Paths) -> None:
    await SqliteLedger(paths.ledger_path).close()


@pytest.mark.spec("B3")
@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("maker", ["token", "store", "config", "log", "transcripts"])
def test_nothing_of_the_state_folder_follows_the_umask(paths: Paths, maker: str) -> None:
    """Whichever part of the gateway is the first to make it."""
    match maker:
        case "token":
            gateway_token(Config(), paths, {})
        case "store":
            anyio.run(_open_store, paths)
        case "config":
            ConfigFile(paths.config_path, {}).save()
        case "log":
            log = Log(paths, verbose=False)
            log.take(Config())
            log._change(None)
            logging.getLogger().removeHandler(log._terminal)
        case "transcripts":
            Files(paths.sessions_dir)._open_root()
    made = [paths.state_dir, *paths.state_dir.rglob("*")]
    assert len(made) > 1
    assert {path.name: oct(mode(path)) for path in made if mode(path) & 0o077} == {}


def test_only_one_module_makes_private_folders_and_files() -> None:
    """A mkdir with parents gives its mode to the last folder alone: so nobody else calls it. The two others
    make single folders relative to an open one, with their mode."""
    allowed = {"disk/private.py", "sandbox/files.py", "transcripts/files.py"}
    makes = re.compile(
        r"\.mkdir\(|makedirs\(|mkstemp\(|\.touch\(|O_CREAT|write_text\(|write_bytes\("
    )
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if makes.search(path.read_text("utf-8"))
    }
    assert found <= allowed


# ── what is believed lies where nobody else can write ──────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    make_folder(made)
    write_file(made / "openclaw.json", "{}\n")
    return made


def test_what_others_can_read_is_closed_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.chmod(0o755)
    (folder / "openclaw.json").chmod(0o644)

    guard([folder, folder / "openclaw.json", folder / "not there"])

    assert (mode(folder), mode(folder / "openclaw.json")) == (0o700, 0o600)
    assert caplog.text.count("was open to others") == 2


@pytest.mark.parametrize("name", ["", "openclaw.json"])
def test_what_everybody_can_write_is_refused_with_the_command_that_fixes_it(
    folder: Path, name: str
) -> None:
    path = folder / name
    path.chmod(0o777)

    with pytest.raises(ConfigInvalid, match=rf"chmod go-rwx {path}$"):
        guard([path])
    with pytest.raises(ConfigInvalid):  # nor does trust in a group help
        guard([path], trust_group=True)


def test_a_folder_above_that_everybody_can_write_is_refused_too(tmp_path: Path) -> None:
    above = tmp_path / "above"
    make_folder(above / "state")
    above.chmod(0o777)

    with pytest.raises(ConfigInvalid, match=rf"chmod o-w {above}$"):
        guard([above / "state"])
    above.chmod(0o1777)  # as /tmp: nobody can rename what is another's
    guard([above / "state"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "openclaw.json"])
def test_what_belongs_to_another_user_is_refused(folder: Path, name: str) -> None:
    os.chown(folder / name, NOBODY, -1)

    with pytest.raises(ConfigInvalid, match=r"chown -R root"):
        guard([folder / name])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose any group")
def test_what_a_group_with_others_can_write_is_refused_unless_it_is_trusted(folder: Path) -> None:
    shared = next(
        group.gr_gid for group in grp.getgrall() if group.gr_name not in ("root", "wheel")
    )
    config = folder / "openclaw.json"
    os.chown(config, -1, shared)
    config.chmod(0o660)
    alone = 59_999  # nobody knows who is in it

    os.chown(folder, -1, alone)
    folder.chmod(0o770)
    with pytest.raises(ConfigInvalid, match=r"chmod g-rwx .*gateway\.trustGroup"):
        guard([folder])
    guard([folder, config], trust_group=True)
    assert (mode(folder), mode(config)) == (0o770, 0o660)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root has a group that nobody else is in, everywhere"
)
def test_what_only_our_own_group_can_write_is_closed(folder: Path) -> None:
    """As under umask 002, where everybody has a group of their own."""
    os.chown(folder, -1, 0)
    folder.chmod(0o770)

    guard([folder])

    assert mode(folder) == 0o700


async def test_a_gateway_does_not_open_on_a_folder_that_everybody_can_write(tmp_path: Path) -> None:
    """Another user could have written the config and the token."""
    paths = find_paths({}, tmp_path)
    make_folder(paths.state_dir)
    paths.state_dir.chmod(0o777)

    with pytest.raises(ConfigInvalid, match="chmod go-rwx"):
        async with open_gateway(Config(), paths, GatewayInputs(environ={}, inline=True)):
            pass
    assert [path.name for path in paths.state_dir.iterdir()] == []


# ── the one writer ─────────────────────────────────────────────────────────────────────────────


def test_a_file_is_written_under_a_name_that_nobody_can_guess(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        with new_file(tmp_path / "out.txt") as file:
            file.write("half")
            (draft,) = (path for path in tmp_path.iterdir() if path.name != "out.txt")
            names.add(draft.name)
            assert mode(draft) == 0o600
            assert not draft.is_symlink()
    assert len(names) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert mode(tmp_path / "out.txt") == 0o600


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a") as file:
        file.write(str(1 / 0))
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {"a": "old"}


def test_what_came_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    def write() -> None:
        with new_file(tmp_path / "a", replace=False) as file:
            file.write("mine")
            (tmp_path / "a").write_text("somebody's", "utf-8")

    with pytest.raises(FileExistsError):
        write()
    assert (tmp_path / "a").read_text("utf-8") == "somebody's"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path, secret = tmp_path / "a", tmp_path / "secret"
    secret.write_text("secret", "utf-8")
    match kind:
        case "link":
            path.symlink_to(secret)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()

    with pytest.raises(NotReplaced, match=kind):
        write_file(path, "new")
    assert secret.read_text("utf-8") == "secret"


def test_a_folder_that_two_make_at_once_is_made_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def make() -> None:
        try:
            make_file(tmp_path / "a" / "b" / "c" / "file")
        except BaseException as error:  # noqa: BLE001  told by the assertion
            failures.append(error)

    threads = [threading.Thread(target=make, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert not [each for each in threads if each.is_alive()]


# ── one gateway a folder ───────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B1")
@pytest.mark.parametrize("how", ["renamed", "removed", "replaced"])
def test_a_lock_file_that_is_renamed_or_removed_lets_no_second_gateway_in(
    tmp_path: Path, how: str
) -> None:
    first = FolderLock(tmp_path)
    lock = tmp_path / "crossclaw.lock"
    if how == "renamed":
        lock.rename(tmp_path / "away")
    else:
        lock.unlink()
    if how == "replaced":
        lock.touch()

    with pytest.raises(StoreLocked, match="another gateway"):
        FolderLock(tmp_path)
    first.close()
    FolderLock(tmp_path).close()


def test_a_lock_that_could_not_say_whose_it_is_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk: a gateway that tries again found the folder in use, by itself."""

    def no_room(*_given: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", no_room)
        with pytest.raises(OSError, match="No space left"):
            FolderLock(tmp_path)

    FolderLock(tmp_path).close()
