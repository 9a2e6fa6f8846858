"""A platform that refuses an account while it is open, as the outbox finds it out."""

from crossclaw.channels.contract import ChannelHost
from crossclaw.channels.hosting import AccountHost


def break_off(host: ChannelHost | None, error: str) -> None:
    assert isinstance(host, AccountHost), "the account is not served yet"
    host.break_off(error)
