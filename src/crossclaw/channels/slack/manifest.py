"""What is known about Slack without a connection: limits, spellings of addresses, ids of senders."""

import re

from crossclaw.channels.manifest import ChannelManifest, Rate, Target, Traits
from crossclaw.channels.slack.settings import SlackSettings
from crossclaw.domain.keys import ChatType

_PREFIX = re.compile(r"slack:", re.I)
# Nine characters or more with a digit among them: what is shorter or all letters is a name.
_REST = r"(?=[A-Z]*\d)[A-Z0-9]{8,}"
_USER = re.compile(rf"(?:(?:user|dm):|<@|@)?([UW]{_REST})(?:\|[^>]*)?>?", re.I)
_CHANNEL = re.compile(rf"(?:(?:channel|group):|<#|#)?([CGD]{_REST})(?:\|[^>]*)?>?", re.I)
_THREAD = re.compile(r"(?P<chat>.+?):(?:thread:)?(?P<ts>\d{6,}\.\d{6})")
_SENDER = re.compile(rf"(?:(?:slack|user):|<@|@)*([UW]{_REST})(?:\|[^>]*)?>?", re.I)


def read_target(text: str) -> Target | None:
    """Parses an address. `user:<U…>`, `<@U…>`: a person. `channel:<C…>`, `<#C…>`, `#C…`: a channel or group
    chat. The first letter of a bare id says which it is. `:thread:<ts>` after it is a thread. Names are not
    accepted: they can be taken by somebody else."""
    chat = text.strip()
    while found := _PREFIX.match(chat):
        chat = chat[found.end() :].strip()
    thread = None
    if found := _THREAD.fullmatch(chat):
        chat, thread = found["chat"], found["ts"]
    if found := _USER.fullmatch(chat):
        return Target(f"user:{found[1].upper()}", thread, ("direct",))
    if found := _CHANNEL.fullmatch(chat):
        types: tuple[ChatType, ...] = ("group", "channel")
        types = ("direct",) if found[1][0] in "Dd" else types
        return Target(f"channel:{found[1].upper()}", thread, types)
    return None


def normalize_sender(entry: str) -> str | None:
    """A sender's id: `U…` or `W…`, also as `<@U…>` or after `slack:` or `user:`. None for a name."""
    found = _SENDER.fullmatch(entry.strip())
    return found[1].upper() if found else None


MANIFEST = ChannelManifest(
    name="slack",
    title="Slack",
    settings=SlackSettings,
    open="crossclaw.channels.slack.account:open_account",
    environ={
        "SLACK_BOT_TOKEN": "botToken",
        "SLACK_APP_TOKEN": "appToken",
        "SLACK_SIGNING_SECRET": "signingSecret",
    },
    traits=Traits(
        dialect="slack",
        text_limit=4_000,
        media_max_mb=20.0,
        files=True,
        edits=True,
        reactions=True,
        replies=True,  # in a thread under the question
        threads="thread",
        webhook="/slack/events",
        rate=Rate(20, 1.0),
        chat_rate=Rate(1, 1.0),
        id_label="Slack user id",
    ),
    read_target=read_target,
    normalize_sender=normalize_sender,
)
