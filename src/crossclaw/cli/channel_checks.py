"""Checks of chat accounts: how many people share the main session."""

from collections.abc import Iterator

from crossclaw.cli.checks import Finding, let_in
from crossclaw.cli.place import StateLocation
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.domain.counts import count_of

SCOPE = "session.dmScope"
TODO = f"crossclaw config set {SCOPE} per-channel-peer"


def shared_session(place: StateLocation) -> Iterator[Finding]:
    """Several people who write directly share the main session unless `session.dmScope` says otherwise: each can have
    it tell what the others said."""
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
    """Who may write directly, by channel and id; and whether a list names everybody."""
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
