"""What arrives on a chat account, decided in one order: is it our own or a bot's; may its sender talk; is it meant
for us; then what came along is fetched, and it is accepted.

Nothing is downloaded, shown or answered before it is known that its sender may talk. Edits, deletions and reactions
pass the same gate.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Received
from crossclaw.channels.hosting import AccountHost
from crossclaw.config.channels import ChannelSettings
from crossclaw.delivery.signals import ChatSignals
from crossclaw.domain.addresses import Address, Inbound, ReplyTo
from crossclaw.domain.errors import ChannelDown
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, Text, UserBlock, UserMessage
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.ledger.channels import ForgetHeard, HeardMessage, RememberHeard
from crossclaw.ledger.operations import Inject, Op
from crossclaw.policy.channel_access import (
    AccessDecision,
    MentionFacts,
    decide_access,
    decide_mention,
)
from crossclaw.policy.main_address import decide_main_address
from crossclaw.policy.send import decide_send
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.arrivals import digest
from crossclaw.sessions.channel_changes import HEARD_CHARS_MAX, ChannelChanges, plain_name
from crossclaw.sessions.channel_media import FetchedMedia, fetch_media
from crossclaw.sessions.channel_pairing import ChannelPairing
from crossclaw.sessions.channel_rules import (
    access_rules,
    chat_place,
    group_settings,
    mention_patterns,
    names_sender,
    sender_ids,
    speaker_of,
    unkept_tool_rule,
    written_lists,
)
from crossclaw.sessions.intake import Intake, inbound_once
from crossclaw.sessions.loops import BotLoops
from crossclaw.sessions.route import route

log = logging.getLogger(__name__)

MORE = "\n    "
"""Separator of continued lines: every line that does not begin with spaces is another person's."""
QUOTED_CHARS_MAX = 2_000


class ChannelIntake:
    def __init__(
        self,
        context: ServiceContext,
        intake: Intake,
        accounts: LiveAccounts,
        pairing: ChannelPairing,
        signals: ChatSignals,
    ) -> None:
        self._config, self._ledger, self._clock = context.config, context.ledger, context.clock
        self._intake, self._accounts, self._pairing = intake, accounts, pairing
        self._loops, self._signals = BotLoops(context.ledger, context.clock), signals
        self._changes = ChannelChanges(context, intake, self._fetch_files, self._moves_address)

    async def receive(self, host: AccountHost, inbound: Inbound) -> Received:
        """Accepts a message or says why not. Raises only when it could not be stored, or when it cannot be
        decided now who may talk: then the platform sends it again."""
        live = self._accounts.find(Address(host.channel, inbound.address.to, host.account_id))
        if live is None:  # broken, or being closed; its webhook can be called all the same
            raise ChannelDown(f"the {host.channel} account {host.account_id} is not open")
        if host.facts is not None and host.facts.id in (inbound.sender, *inbound.sender_aliases):
            return Received(what="dropped", why="it is our own message")
        refused = await self._refusal(live, live.settings, host, inbound)
        if refused is not None:
            log.info("a message was not taken: %s account %s: %s", *live.place, refused.why)
            return refused
        key = route(self._config, inbound)
        if inbound.edit_of or inbound.deletion_of or inbound.reaction_to is not None:
            return await self._changes.receive(live, inbound, key)
        called, command = False, self._intake.is_command(inbound)
        if not inbound.is_direct:
            heard = await self._overheard(live, inbound, key, command=command)
            if isinstance(heard, Received):
                return heard
            called = heard
        quoted = [] if command else await self._quoted(live, inbound)
        return await self._accept(live, inbound, key, quoted, called=called)

    async def may_talk(self, host: AccountHost, inbound: Inbound) -> bool:
        """Whether such a message would be accepted; nothing is stored, no pairing code is offered."""
        live = self._accounts.find(Address(host.channel, inbound.address.to, host.account_id))
        if live is None:
            return False
        return (await self._decide(live, live.settings, inbound)).allowed

    async def _decide(
        self, live: LiveAccount, settings: ChannelSettings, inbound: Inbound
    ) -> AccessDecision:
        ids = sorted(sender_ids(live.channel, inbound))
        wants_pairing = inbound.is_direct and settings.dm_policy == "pairing"
        paired = wants_pairing and await self._ledger.is_paired(live.channel, live.account_id, ids)
        speaker = speaker_of(live, settings, inbound, paired)
        return decide_access(access_rules(self._config, live, settings), speaker)

    async def _refusal(
        self, live: LiveAccount, settings: ChannelSettings, host: AccountHost, inbound: Inbound
    ) -> Received | None:
        decision = await self._decide(live, settings, inbound)
        if decision.offers_pairing:
            return await self._pairing.offer(live, host, inbound)
        if not decision.allowed:
            return Received(what="dropped", why=decision.reason)
        place = chat_place(live, settings, inbound)
        if place and (why := unkept_tool_rule(live.channel, settings, place)) is not None:
            return Received(what="dropped", why=why)
        if inbound.sender_is_bot and not await self._loops.may_answer(inbound):
            return Received(what="dropped", why="two bots have talked to each other too fast")
        return None

    # ── groups ─────────────────────────────────────────────────────────────────────────────────

    async def _overheard(
        self, live: LiveAccount, inbound: Inbound, key: SessionKey, *, command: bool
    ) -> Received | bool:
        """Stores a message that is not meant for us as context of the next one that is. For one that is:
        whether it had to mention us."""
        session = await self._ledger.find_session(key)
        facts = MentionFacts(
            required=_needs_mention(live.settings, inbound, session),
            mentioned=inbound.mentioned,
            replies_to_us=inbound.reply_to is not None and inbound.reply_to.ours,
            mentions_others=inbound.mentions_others,
            command=command,
            text=inbound.text,
        )
        decision = decide_mention(facts, mention_patterns(self._config, key.agent_id))
        if decision.allowed:
            return facts.required
        keep = self._history_limit(live)
        if keep and inbound.text.strip():
            at, once = self._clock.now_ms(), inbound_once(inbound.dedupe_key)
            heard = _heard(live, inbound, at)
            await self._ledger.do(RememberHeard(heard=heard, keep=keep, dedupe=once, at=at))
            return Received(what="remembered", why=decision.reason)
        return Received(what="dropped", why=decision.reason)

    def _history_limit(self, live: LiveAccount) -> int:
        for limit in (live.settings.history_limit, self._config.messages.group_chat.history_limit):
            if limit is not None:
                return limit
        return live.traits.history

    async def _context(self, live: LiveAccount, inbound: Inbound, key: SessionKey) -> list[Op[Any]]:
        """The group's earlier messages as one entry between marks, consumed together with the message that
        they precede."""
        if inbound.is_direct:
            return []
        place, chat = (live.channel, live.account_id), inbound.address.to
        thread = inbound.address.thread_id or ""
        limit = self._history_limit(live)
        heard = await self._ledger.list_heard(*place, chat, thread, limit=limit) if limit else []
        if not heard:
            return []
        lines = "\n".join(f"{_who(each)}: {MORE.join(each.text.splitlines())}" for each in heard)
        said = Provenance("chat", source_channel=live.channel, sender=inbound.chat_name or chat)
        at = self._clock.now_ms()
        entry = NewEntry(
            entry_id=digest("heard", inbound.dedupe_key)[:8] + "h",
            message=UserMessage([Text(lines)], at, said),
        )
        forget = ForgetHeard(
            channel=live.channel,
            account_id=live.account_id,
            chat=chat,
            thread_id=thread,
            message_ids=tuple(each.message_id for each in heard),
        )
        return [Inject(key=key, entries=[entry], at=at, if_there=True), forget]

    # ── accepting ──────────────────────────────────────────────────────────────────────────────

    async def _accept(
        self,
        live: LiveAccount,
        inbound: Inbound,
        key: SessionKey,
        quoted: Sequence[UserBlock],
        *,
        called: bool,
    ) -> Received:
        media = FetchedMedia()
        if inbound.attachments:
            media = await self._fetch_files(live, inbound, key)
        preceding = await self._context(live, inbound, key)
        groups = group_settings(live.settings, inbound)
        prompt = next((each.system_prompt for each in groups if each.system_prompt), None)
        run_id = await self._intake.receive_inbound(
            msgspec.structs.replace(inbound, text=media.under(inbound.text)),
            [*quoted, *media.blocks],
            preceding=preceding,
            context=prompt,
            moves_address=await self._moves_address(live, inbound, key),
            place=chat_place(live, live.settings, inbound),
        )
        self._signals.accepted(live, inbound, run_id, key.agent_id, called=called)
        return Received(what="accepted", run_id=run_id)

    async def _quoted(self, live: LiveAccount, inbound: Inbound) -> list[UserBlock]:
        """The message that somebody replies to, where the platform includes it: beside the words and not in
        them, since a command that is quoted is none.

        Quotations of people who may not talk here are left out. Signal takes the sender's word for who wrote
        it, so it is passed on as a quotation and not as a fact.
        """
        replied = inbound.reply_to
        if replied is None or not replied.text:
            return []
        if not await self._may_be_quoted(live, inbound, replied):
            return []
        whom = "you" if replied.ours else plain_name(replied.sender_name) or "somebody"
        lines = replied.text[:QUOTED_CHARS_MAX].splitlines()
        return [Text(f"[quoting {whom}:{MORE}{MORE.join(lines)}]")]

    async def _may_be_quoted(self, live: LiveAccount, inbound: Inbound, replied: ReplyTo) -> bool:
        own = (inbound.sender, *inbound.sender_aliases)
        if replied.ours or replied.sender in own:
            return True
        if replied.sender is None or inbound.is_direct:
            return False
        writer = msgspec.structs.replace(
            inbound,
            sender=replied.sender,
            sender_aliases=(),
            member_of=(),
            sender_is_bot=replied.sender_is_bot,
        )
        return (await self._decide(live, live.settings, writer)).allowed

    async def _fetch_files(
        self, live: LiveAccount, inbound: Inbound, key: SessionKey
    ) -> FetchedMedia:
        return await fetch_media(live, inbound.attachments, self._recording_bytes_max(inbound, key))

    def _recording_bytes_max(self, inbound: Inbound, key: SessionKey) -> int:
        """The largest recording that is fetched; 0: recordings are not transcribed here."""
        media = self._config.tools.media
        scope = media.audio.scope
        allowed = decide_send(scope, key, None, inbound.address.channel).allowed
        if key.is_guest or not allowed:
            return 0
        limits = [each.max_bytes or media.audio.max_bytes for each in media.transcribers]
        return max(limits, default=0)

    async def _moves_address(self, live: LiveAccount, inbound: Inbound, key: SessionKey) -> bool:
        """Whether reminders and announces of the session go to this chat from now on. A session of one person
        or one group has one chat; the main session is shared by many people."""
        if key.kind != "main":
            return True
        commands, settings = self._config.commands, live.settings
        is_owner = self._intake.is_owner(inbound)
        session = None if is_owner else await self._ledger.find_session(key)
        last = session.last_address if session is not None else None
        decision = decide_main_address(
            commands,
            (settings.allow_from, *written_lists(self._config)),
            is_owner=is_owner,
            is_named=names_sender(live, settings, inbound),
            is_free=last is None or last.chat == inbound.address.chat,
        )
        return decision.allowed


def _needs_mention(settings: ChannelSettings, inbound: Inbound, session: Session | None) -> bool:
    activation = session.group_activation if session is not None else None
    if activation in ("always", "mention"):
        return activation == "mention"
    written = [each.mention for each in group_settings(settings, inbound)]
    for needed in (*written, settings.require_mention):
        if needed is not None:
            return needed
    return True


def _heard(live: LiveAccount, inbound: Inbound, now_ms: int) -> HeardMessage:
    return HeardMessage(
        channel=live.channel,
        account_id=live.account_id,
        chat=inbound.address.to,
        thread_id=inbound.address.thread_id or "",
        message_id=inbound.message_id,
        sender=inbound.sender,
        sender_name=inbound.sender_name,
        text=inbound.text[:HEARD_CHARS_MAX],
        at=inbound.at_ms or now_ms,
    )


def _who(heard: HeardMessage) -> str:
    name = plain_name(heard.sender_name)
    return f"{name} ({heard.sender})" if name else heard.sender
