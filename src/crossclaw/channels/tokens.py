"""Tokens in files of their own: `tokenFile` of an account."""

from pathlib import Path

from crossclaw.domain.errors import AccountBroken

TOKEN_CHARS_MAX = 1_000  # no token is so long; what is more is another file


def read_token_file(name: str) -> str:
    """The token in a file; a file that is named and cannot be read means no token, and not another one."""
    path = Path(name).expanduser()
    try:
        with path.open() as file:
            return file.read(TOKEN_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AccountBroken(f"tokenFile cannot be read: {path}: {error}") from None
