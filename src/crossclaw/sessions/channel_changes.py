"""Edits, deletions and reactions: what people do with messages that they have sent before.

What no agent has read yet is changed or taken back where it waits; otherwise the session gets a note, for whichever
run comes next. Nobody is answered for it. All of them have passed the gate of `ChannelIntake` first.
"""

from collections.abc import Awaitable, Callable

import msgspec

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.contract import Received
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.channels import ChangeHeard
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.channel_media import FetchedMedia
from crossclaw.sessions.channel_rules import chat_place
from crossclaw.sessions.intake import Intake, inbound_once

HEARD_CHARS_MAX = 1_000  # of one remembered message: it is context, and there are fifty of them
NAME_CHARS_MAX = 80

FetchFiles = Callable[[LiveAccount, Inbound, SessionKey], Awaitable[FetchedMedia]]
MovesAddress = Callable[[LiveAccount, Inbound, SessionKey], Awaitable[bool]]


class ChannelChanges:
    def __init__(
        self,
        context: ServiceContext,
        intake: Intake,
        fetch_files: FetchFiles,
        moves_address: MovesAddress,
    ) -> None:
        self._ledger, self._clock = context.ledger, context.clock
        self._intake, self._fetch_files, self._moves_address = intake, fetch_files, moves_address

    async def receive(self, live: LiveAccount, inbound: Inbound, key: SessionKey) -> Received:
        if (of := inbound.edit_of or inbound.deletion_of) is not None:
            if await self._change_waiting(live, inbound, key, _keys_of(inbound, of)):
                return Received(what="changed", why="no agent had read the message")
            if await self._change_heard(live, inbound, of):
                return Received(what="changed", why="it is context of a later message")
        return await self._note(live, inbound, key)

    async def _change_waiting(
        self, live: LiveAccount, inbound: Inbound, key: SessionKey, of: tuple[str, ...]
    ) -> bool:
        if inbound.deletion_of is not None:
            return await self._intake.withdraw_waiting(inbound, of)
        blocks = None
        if inbound.attachments:
            if not await self._waits(of):
                return False  # then nothing is fetched
            media = await self._fetch_files(live, inbound, key)
            blocks, inbound = media.blocks, msgspec.structs.replace(inbound, text=media.under(inbound.text))  # fmt: skip
        place = chat_place(live, live.settings, inbound)
        return await self._intake.edit_waiting(inbound, of, blocks, place=place) is not None

    async def _waits(self, of: tuple[str, ...]) -> bool:
        for key in of:
            run_id = await self._ledger.find_deduped(inbound_once(key))
            run = await self._ledger.find_run(run_id) if run_id else None
            if run is not None:
                return run.status == "queued" and not run.plan.joined
        return False

    async def _change_heard(self, live: LiveAccount, inbound: Inbound, of: str) -> bool:
        if inbound.is_direct:
            return False
        text = None if inbound.deletion_of else inbound.text[:HEARD_CHARS_MAX]
        return await self._ledger.do(
            ChangeHeard(
                channel=live.channel,
                account_id=live.account_id,
                chat=inbound.address.to,
                message_id=of,
                senders=(inbound.sender, *inbound.sender_aliases),
                text=text,
                dedupe=inbound_once(inbound.dedupe_key),
                at=self._clock.now_ms(),
            )
        )

    async def _note(self, live: LiveAccount, inbound: Inbound, key: SessionKey) -> Received:
        """Writes a note about the change into the session; the next run reads it. Nobody is answered."""
        if await self._ledger.find_session(key) is None:
            return Received(what="dropped", why="nothing was said in this chat before")
        moves = await self._moves_address(live, inbound, key)
        await self._intake.note_inbound(inbound, _words_of_change(inbound), moves_address=moves)
        return Received(what="noted")


def _keys_of(inbound: Inbound, message_id: str) -> tuple[str, ...]:
    """The dedupe keys under which the changed message may have been accepted: one for each id of the sender."""
    replace = msgspec.structs.replace
    senders = (inbound.sender, *inbound.sender_aliases)
    return tuple(
        replace(inbound, sender=each, message_id=message_id).dedupe_key for each in senders
    )


def plain_name(name: str | None) -> str:
    """A sender's name without characters that would end it or begin another sender's line."""
    letters = "".join(each if each.isprintable() and each not in "()[]:" else " " for each in name or "")  # fmt: skip
    return " ".join(letters.split())[:NAME_CHARS_MAX]


def _words_of_change(inbound: Inbound) -> str:
    who = plain_name(inbound.sender_name) or inbound.sender
    if inbound.edit_of:
        return f"[{who} has changed an earlier message; it reads now:]\n{inbound.text}"
    if inbound.deletion_of:
        return f"[{who} has deleted an earlier message.]"
    if not inbound.text:
        return f"[{who} has taken back a reaction.]"
    return f"[{who} reacted to an earlier message: {inbound.text[:32]}]"
