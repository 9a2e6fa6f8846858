"""Checks of chat accounts: whether each is set up and runs, and how many people share the main session."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio

from crossclaw.cli.channels import WELL, states_of
from crossclaw.cli.checks import Finding, let_in
from crossclaw.cli.exits import CommandFailed
from crossclaw.cli.peer import connect_peer
from crossclaw.cli.place import StateLocation
from crossclaw.cli.say import in_one_line
from crossclaw.client.errors import ClientError
from crossclaw.client.finding import ConnectOptions, served_port
from crossclaw.client.peer import READ
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.domain.counts import count_of

SCOPE = "session.dmScope"
TODO = f"crossclaw config set {SCOPE} per-channel-peer"
ANSWER_S_MAX = 5.0  # a gateway that does not answer is reported by other checks


def chat_accounts(place: StateLocation) -> Iterator[Finding]:
    """Each account that lacks something, or does not run at the gateway that serves this folder."""
    configured = accounts_in(place.config.channels, place.config.environment(place.environ))
    ready = any(account.settings.is_set_up for account in configured)
    served = anyio.run(_served, place) if ready and served_port(place) else {}
    for account in configured:
        channel, account_id, settings = account.channel, account.account_id, account.settings
        subject = f"{channel} {in_one_line(account_id)}"
        here = served.get((channel, account_id))
        if not settings.is_set_up:
            missing = settings.what_is_missing
            yield Finding(subject, "warning", "it is not set up, so nobody is heard there", missing)
        elif here is not None and here["state"] not in WELL:
            why = in_one_line(str(here.get("lastError") or "nobody knows why"))
            todo = f"crossclaw channels test {channel}"
            yield Finding(subject, "warning", f"it does not run ({here['state']}): {why}", todo)


async def _served(place: StateLocation) -> dict[tuple[str, str], dict[str, Any]]:
    with anyio.move_on_after(ANSWER_S_MAX), suppress(ClientError, CommandFailed):
        async with connect_peer(ConnectOptions(), lambda: place, READ, embed=False) as peer:
            return await states_of(peer)
    return {}


def shared_session(place: StateLocation) -> Iterator[Finding]:
    """A warning if several people who write directly share the main session (`session.dmScope`): each can
    have it tell what the others said."""
    if place.config.session.dm_scope != "main":
        return
    people, everybody = _people(place)
    if len(people) < 2 and not everybody:
        return
    who = "everybody" if everybody else count_of(len(people), "person", "people")
    text = f"{who} may write to agents directly, and all talk in one session, where each can ask what others said"
    if not any(str(each) != "*" for each in place.config.commands.owner_allow_from):
        text += "; reminders of it go to whom allowFrom names, or whoever wrote last (commands.ownerAllowFrom names the owner)"
    yield Finding("direct chats", "warning", text, TODO)


def _people(place: StateLocation) -> tuple[set[tuple[str, str]], bool]:
    """The people who may write directly, by channel and id; and whether a list names everybody."""
    variables = place.config.environment(place.environ)
    people: set[tuple[str, str]] = set()
    everybody, pairs = False, set[tuple[str, str]]()
    for account in accounts_in(place.config.channels, variables):
        if account.settings.dm_policy == "disabled":
            continue
        listed = {str(each) for each in account.settings.allow_from}
        everybody = everybody or "*" in listed
        people |= {(account.channel, each) for each in listed - {"*"}}
        if account.settings.dm_policy == "pairing":
            pairs.add((account.channel, account.account_id))
    people |= {(who.channel, who.sender) for who in let_in(place) if (who.channel, who.account_id) in pairs}  # fmt: skip
    return people, everybody
