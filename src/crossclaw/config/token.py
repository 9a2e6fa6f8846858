"""The gateway's token: given by the environment or the config, else made once and kept.

It is written whole under another name and then linked to its own, which fails if somebody was
faster. So of two gateways that start at once both use one token, and nobody reads half of it.
"""

import base64
import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from crossclaw.config.model import Config
from crossclaw.config.paths import Paths
from crossclaw.disk.private import make_folder, write_file
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret

TOKEN_VARIABLE = "OPENCLAW_GATEWAY_TOKEN"
TOKEN_BYTES = 32  # 256 bits: nobody guesses it, however fast they may try

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_log = logging.getLogger(__name__)


def random_token() -> str:
    """A random token. It never begins with a dash, which a command line would take for an option."""
    while (made := base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES))).startswith(b"-"):
        pass
    return made.rstrip(b"=").decode()


def gateway_token(
    config: Config,
    paths: Paths,
    environ: Mapping[str, str],
    make: Callable[[], str] = random_token,
) -> Secret:
    if given := environ.get(TOKEN_VARIABLE, "").strip():
        return Secret(given)
    if config.gateway.auth.token:
        return config.gateway.auth.token
    return _kept_token(paths.token_path, make)


def _kept_token(path: Path, make: Callable[[], str]) -> Secret:
    try:
        _prepare_folder(path.parent)
        if not os.path.lexists(path):
            _create(path, make())
        return _read(path)
    except OSError as error:
        raise ConfigInvalid(
            f"the gateway's token cannot be kept in {path}: {error.strerror}. "
            f"Fix the folder, or set {TOKEN_VARIABLE} or gateway.auth.token."
        ) from error


def _prepare_folder(folder: Path) -> None:
    make_folder(folder)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        folder.chmod(_FOLDER_MODE)
        _log.warning("the credentials folder was open to others; it is closed now: %s", folder)


def _create(path: Path, token: str) -> None:
    try:
        write_file(path, token + "\n", replace=False)
    except FileExistsError:
        _log.debug("another gateway made the token first: %s", path)


def _read(path: Path) -> Secret:
    # A link could point at a file that somebody else writes: do not follow it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.fchmod(descriptor, _FILE_MODE)
            _log.warning("the gateway's token was readable by others; it is closed now: %s", path)
        token = file.read().strip()
    if not token:
        raise ConfigInvalid(f"{path} is empty; remove it, and the next start makes a new token")
    return Secret(token)
