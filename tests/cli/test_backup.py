"""`backup`, `restore` and `verify` at a terminal."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crossclaw.cli.backup import PASSPHRASE_VARIABLE
from crossclaw.cli.exits import Exit
from tests.cli.person import Person

SECRET = {PASSPHRASE_VARIABLE: "correct horse battery"}


@pytest.fixture
def spoken(person: Person) -> Person:
    """Somebody who has talked, with a workspace and a token."""
    assert person.types("message", "send", "say: remember me").returncode == Exit.OK
    workspace = person.state / "workspace" / "notes"
    workspace.mkdir(parents=True)
    (workspace / "plan.md").write_text("the plan")
    (person.state / "credentials").mkdir(exist_ok=True)
    (person.state / "credentials" / "gateway-token").write_text("t" * 48)
    return person


def history(person: Person) -> list[tuple[str, str]]:
    done = person.types("sessions", "history", "main", "--json")
    assert done.returncode == Exit.OK, done.stderr
    return [(m["role"], json.dumps(m["content"])) for m in json.loads(done.stdout)["messages"]]


def elsewhere(person: Person, tmp_path: Path) -> Person:
    other = Person(tmp_path / "elsewhere")
    other.folder.mkdir(exist_ok=True)
    return other


def test_what_was_backed_up_is_there_after_a_restore(spoken: Person, tmp_path: Path) -> None:
    done = spoken.types("backup", "all.backup")
    assert done.returncode == Exit.OK, done.stderr
    assert ": 1 session, 2 messages and notes, read back and whole" in done.stdout
    looked = spoken.types("verify", "all.backup").stdout
    assert "all.backup is whole: 1 session, 2 entries, 1 run, 0 jobs, made 20" in looked
    assert looked.endswith(", without keys and tokens\n")

    other = elsewhere(spoken, tmp_path)
    back = other.types("restore", str(spoken.folder / "all.backup"))

    assert back.returncode == Exit.OK, back.stderr
    assert history(other) == history(spoken)
    assert (other.state / "workspace/notes/plan.md").read_text() == "the plan"
    assert not (other.state / "credentials").exists()
    assert not (other.state / "channels").exists()
    assert (other.state / "crossclaw.sqlite").stat().st_mode & 0o777 == 0o600


def test_an_encrypted_one_takes_the_credentials_along_and_opens_by_its_passphrase_only(
    spoken: Person, tmp_path: Path
) -> None:
    device = spoken.state / "channels/matrix/default"
    device.mkdir(parents=True)
    keys = sqlite3.connect(device / "keys.db")
    keys.executescript("PRAGMA journal_mode=wal; CREATE TABLE k (v); INSERT INTO k VALUES ('key');")
    (device / "name").write_text("phone")
    assert spoken.types("backup", "all.backup", **SECRET).returncode == Exit.OK
    keys.close()
    file = spoken.folder / "all.backup"
    assert b"remember me" not in file.read_bytes()
    other = elsewhere(spoken, tmp_path)

    for environ in ({}, {PASSPHRASE_VARIABLE: "a wrong one"}):
        refused = other.types("restore", str(file), **environ)
        assert refused.returncode != Exit.OK
        assert "passphrase" in refused.stderr
        assert not other.state.exists()

    assert other.types("restore", str(file), **SECRET).returncode == Exit.OK
    assert (other.state / "credentials/gateway-token").read_text() == "t" * 48
    restored = other.state / "channels/matrix/default"
    assert sorted(each.name for each in restored.iterdir()) == ["keys.db", "name"]
    with closing(sqlite3.connect(restored / "keys.db")) as again:
        assert again.execute("SELECT v FROM k").fetchall() == [("key",)]


def test_a_restore_never_overwrites(spoken: Person) -> None:
    assert spoken.types("backup", "all.backup").returncode == Exit.OK
    before = history(spoken)

    refused = spoken.types("restore", "all.backup")

    assert refused.returncode == Exit.FAILED
    assert "never overwrites" in refused.stderr
    assert history(spoken) == before


def test_a_damaged_backup_restores_nothing(spoken: Person, tmp_path: Path) -> None:
    assert spoken.types("backup", "all.backup").returncode == Exit.OK
    file = spoken.folder / "all.backup"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    other = elsewhere(spoken, tmp_path)

    assert other.types("verify", str(file)).returncode == Exit.FAILED
    assert other.types("restore", str(file)).returncode == Exit.FAILED
    assert not other.state.exists()


def test_links_and_pipes_of_an_agent_are_left_out_and_named(spoken: Person, tmp_path: Path) -> None:
    workspace = spoken.state / "workspace"
    (workspace / "stolen").symlink_to(spoken.state / "credentials" / "gateway-token")
    (workspace / "folder").symlink_to(spoken.state / "credentials")
    os.mkfifo(workspace / "pipe")

    done = spoken.types("backup", "all.backup", "--json")

    told = json.loads(done.stdout)
    assert set(told["skipped"]) == {"workspace/stolen", "workspace/folder", "workspace/pipe"}
    other = elsewhere(spoken, tmp_path)
    assert other.types("restore", str(spoken.folder / "all.backup")).returncode == Exit.OK
    assert "t" * 48 not in "".join(
        p.read_text("latin-1") for p in other.state.rglob("*") if p.is_file()
    )


def test_a_store_of_a_newer_release_is_refused_in_words(spoken: Person, tmp_path: Path) -> None:
    db = sqlite3.connect(spoken.state / "crossclaw.sqlite")
    db.execute("PRAGMA user_version = 9999")
    db.close()

    refused = spoken.types("verify")

    assert refused.returncode == Exit.FAILED
    assert "upgrade" in refused.stderr


def test_a_damaged_store_is_noticed(spoken: Person) -> None:
    assert spoken.types("verify").returncode == Exit.OK
    path = spoken.state / "crossclaw.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)

    refused = spoken.types("verify")

    assert refused.returncode == Exit.FAILED
    assert "crossclaw.sqlite" in refused.stderr


def test_nothing_to_back_up_is_said_so(person: Person) -> None:
    refused = person.types("backup", "all.backup")

    assert refused.returncode == Exit.FAILED
    assert "nothing to back up" in refused.stderr
    assert not (person.folder / "all.backup").exists()
