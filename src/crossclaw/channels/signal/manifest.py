"""What is known about Signal without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.manifest import ChannelManifest, Target, Traits
from crossclaw.channels.signal.settings import SignalSettings

_UUID = re.compile(
    r"(?:uuid:)?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})", re.I
)
_NUMBER = re.compile(r"\+?[1-9][\d ()./-]{4,24}")
_GROUP = re.compile(r"group(?:-v2)?:(\S+)", re.I)
_NAME = re.compile(r"(?:username|u):(\S+)", re.I)


def _bare(text: str) -> str:
    text = text.strip()
    while found := re.match(r"(?:signal|user|dm):", text, re.I):
        text = text[found.end() :].strip()
    return text


def read_target(text: str) -> Target | None:
    """Parses an address: `+4915112345678`, `uuid:…` or the bare uuid, `group:<id>`, `username:<name>`, each
    also after `signal:`."""
    chat = _bare(text)
    if found := _GROUP.fullmatch(chat):
        return Target(f"group:{found[1]}", None, ("group",))  # base64: never in another case
    if found := _NAME.fullmatch(chat):
        return Target(f"username:{found[1]}", None, ("direct",))
    person = normalize_sender(chat)
    return None if person is None else Target(person, None, ("direct",))


def normalize_sender(entry: str) -> str | None:
    """A number with its country code, or a uuid. No country is guessed: `0151…` gives None."""
    bare = _bare(entry)
    if found := _UUID.fullmatch(bare):
        return f"uuid:{found[1].lower()}"
    if not _NUMBER.fullmatch(bare):
        return None
    return "+" + re.sub(r"\D", "", bare)


MANIFEST = ChannelManifest(
    name="signal",
    title="Signal",
    settings=SignalSettings,
    open="crossclaw.channels.signal.account:open_account",
    environ={"SIGNAL_ACCOUNT": "account"},
    traits=Traits(
        dialect="signal",
        text_limit=4_000,
        media_max_mb=8.0,
        files=True,
        edits=True,
        typing_every_s=6.0,
        reactions=True,
        replies=True,
        id_label="Signal number",
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
