"""Guarding: what the gateway relies on must be where nobody else can write.

Whoever can write the config is the owner: the gateway does what it says. So before anything is
used, the state folder, the secrets, the store and the config are checked: a mode that is too open
is corrected, and what others may have written already is refused, with the command that fixes it.
"""

import grp
import logging
import os
import pwd
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path

from crossclaw.disk.private import FILE_MODE, FOLDER_MODE
from crossclaw.domain.errors import ConfigInvalid

log = logging.getLogger(__name__)

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def guard(paths: Iterable[Path], *, trust_group: bool = False) -> None:
    """Checks the paths that exist. A link is checked with what it leads to and with the folder it
    is in."""
    for path in dict.fromkeys(paths):
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        _refuse_above(path)
        _refuse(path, found, trust_group=trust_group)
        _correct(path, found, trust_group=trust_group)


def _refuse(path: Path, found: os.stat_result, *, trust_group: bool) -> None:
    shown = shlex.quote(str(path))
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigInvalid(
            f"{path} belongs to {_user(found.st_uid)}, who could change what this gateway does; "
            f"fix it with: sudo chown -R {_user(os.geteuid())} {shown}"
        )
    if found.st_mode & stat.S_IWOTH and not _is_shared_folder(found):
        raise ConfigInvalid(
            f"{path} can be written by every user of this machine, so nobody knows who wrote what is "
            f"in it; look at it, then fix it with: chmod go-rwx {shown}"
        )
    if found.st_mode & stat.S_IWGRP and not trust_group:
        others = _others_in(found.st_gid)
        if others:
            raise ConfigInvalid(
                f"{path} can be written by the group {_group(found.st_gid)} ({others}); look at it, then "
                f"fix it with: chmod g-rwx {shown}; or set gateway.trustGroup to true if they may "
                "do all that you may"
            )


def _refuse_above(path: Path) -> None:
    """Refuses a path below a folder that everybody can write: they could replace it."""
    for folder in path.absolute().parents:
        try:
            found = folder.stat()
        except OSError:
            continue
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise ConfigInvalid(
                f"{folder} can be written by every user of this machine, and {path} lies in it; fix it "
                f"with: chmod o-w {shlex.quote(str(folder))}"
            )


def _correct(path: Path, found: os.stat_result, *, trust_group: bool) -> None:
    if found.st_uid != os.geteuid():
        return  # root's: only root corrects it
    mode = FOLDER_MODE if stat.S_ISDIR(found.st_mode) else FILE_MODE
    too_much = stat.S_IRWXO if trust_group else OTHERS
    if found.st_mode & too_much and not _is_shared_folder(found):
        kept = stat.S_IMODE(found.st_mode) & ~too_much
        try:
            os.chmod(path, kept if trust_group else mode | (kept & stat.S_IRWXU))
        except OSError as error:
            log.warning("%s is open to others and cannot be closed: %s", path, error.strerror)
            return
        log.warning("%s was open to others (%o); it is closed now", path, found.st_mode & 0o777)


def _is_shared_folder(found: os.stat_result) -> bool:
    """Whether a folder is shared like /tmp: everybody may make files, and nobody may touch
    another's."""
    return stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)


def _others_in(group: int) -> str:
    """The members of a group other than us and root. An unknown group can have anybody in it."""
    try:
        named = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return "whoever that is"
    own = os.geteuid()
    named |= {user.pw_name for user in pwd.getpwall() if user.pw_gid == group}
    named -= {_user(own), _user(0)}
    return ", ".join(sorted(named)[:5])


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
