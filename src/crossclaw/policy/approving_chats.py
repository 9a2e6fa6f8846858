"""The chats that get the question whether a call is approved, and its text."""

import re
from collections.abc import Collection, Iterator

from crossclaw.config.approvals import ApprovalChats
from crossclaw.config.model import Config
from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.approvals import NewApproval, visible
from crossclaw.domain.keys import SessionKey

CHATS_MAX = 8  # more than that are not the owner's
COMMAND_CHARS_MAX = 1_500  # of one message; a longer one is looked at on the page
MORE = "\n│ "
"""The prefix of every further line of a command, so that none of them looks like a line of the gateway."""


def chats_to_ask(
    config: Config,
    key: SessionKey,
    replies_to: Address | None,
    channels: Collection[str],
    *,
    owner: bool,
) -> list[Address]:
    """The chats that get the question. `channels` are those that can be sent to; `owner`: the run is the
    owner's own."""
    settings = config.approvals.exec
    if not settings.enabled or not _is_meant(settings, key):
        return []
    found: list[Address] = []
    if settings.mode != "targets":
        found += [replies_to] if replies_to is not None and owner else []
        found += _owners(config)
    if settings.mode != "session":
        found += [
            Address(each.channel, each.to, each.account_id, _text(each.thread_id), named=True)
            for each in settings.targets
        ]
    known = {name.lower() for name in channels}
    unique = {each.chat: each for each in reversed(found) if each.channel.lower() in known}
    return list(reversed(unique.values()))[:CHATS_MAX]


def approval_text(new: NewApproval, key: SessionKey, others: str | None = None) -> str:
    """The question's text. `others`: for whom the run works, if that is not the owner."""
    wish = new.wish
    short = new.approval_id[:8]
    if len(wish.shown) <= COMMAND_CHARS_MAX:
        what = _fenced(wish.shown)
    else:
        what = "It is too long for a message: look at it on the page, or by `crossclaw approvals list`."
    lines = [f"🔐 {key.agent_id} asks: may it run this?", what]
    if wish.program is not None:
        lines.append(f"Program: {_one_line(wish.program)}")
    if wish.folder is not None:
        lines.append(f"In: {_one_line(wish.folder)}{' (sandboxed)' if wish.sandboxed else ''}")
    if wish.warning is not None:
        lines.append(f"⚠️ {_one_line(wish.warning)}.")
    if others is not None:
        lines.append(f"⚠️ You have not asked for it yourself; it is for {_one_line(others)}.")
    answers = ["allow-once", "allow-always", "deny"] if wish.can_last else ["allow-once", "deny"]
    lines.append("Answer with: " + " or ".join(f"/approve {short} {each}" for each in answers))
    return "\n".join(lines)


def _fenced(text: str) -> str:
    """The text as code that nothing in it can end: the fence is longer than any in the text. Not every chat
    shows a fence, so every line after the first is marked as well."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.replace(chr(10), MORE)}\n{fence}"


def _one_line(text: str) -> str:
    """The text on one line: an agent names folders, and a name can have line breaks and marks in it."""
    return visible(text).replace("\n", "\\n").replace("`", "\\x60")


def _owners(config: Config) -> Iterator[Address]:
    """The owner's own chats, if `commands.ownerAllowFrom` names their platform."""
    for entry in map(str, config.commands.owner_allow_from):
        channel, colon, name = entry.partition(":")
        if colon and name:
            yield Address(channel.lower(), name, named=True)


def _is_meant(settings: ApprovalChats, key: SessionKey) -> bool:
    agents = {normalize_agent_id(each) for each in settings.agent_filter}
    of_agent = not agents or key.agent_id in agents
    of_session = not settings.session_filter or any(
        text in key.text for text in settings.session_filter
    )
    return of_agent and of_session


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
