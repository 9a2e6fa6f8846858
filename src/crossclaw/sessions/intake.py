"""The intake: whatever arrives becomes an accepted run here, or an answer, or a refusal, and nowhere else.

chat.send, agent and `/v1`, the session tools, hooks, nodes, jobs, channels and compactions hand over an `Arrival`;
`ROADS` says what is asked of each. What follows from the end of a run was accepted with it, and comes from `RunBuilder` alone.
"""

from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec

from crossclaw.config.session import AgentToAgentConfig
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.authority import Authority, ChatPlace, CredentialRef
from crossclaw.domain.errors import Invalid, TooMuchFollows
from crossclaw.domain.ids import FOLLOWS, ID_REFUSED
from crossclaw.domain.jobs import Job
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserBlock, UserMessage, content_of
from crossclaw.domain.runs import NewRun, Run, RunPlan
from crossclaw.domain.sessions import NewEntry, NewSession, Session, SessionFacts
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.channels import EditWaiting, WithdrawWaiting
from crossclaw.ledger.operations import (
    Dedupe,
    NewDelivery,
    Op,
    PutDelivery,
    Submitted,
    UnarchiveSession,
)
from crossclaw.policy.hops import begun_by, decide_hop, one_hop_less
from crossclaw.policy.owner import decide_commands, decide_owner
from crossclaw.policy.send import BLOCKED, decide_send
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.arrivals import (
    ROADS,
    Accepted,
    Arrival,
    Refused,
    Replied,
    RequestId,
    SessionNamed,
)
from crossclaw.sessions.commands import CommandAnswer, CommandContext, Commands, SlashCommand
from crossclaw.sessions.freshness import Accept, begin_anew, begins_anew
from crossclaw.sessions.queueing import queueing_for
from crossclaw.sessions.route import route
from crossclaw.sessions.run_builder import RunBuilder

INBOUND = "inbound"
"""The dedupe scope of messages from chat platforms: their own ids, which they repeat."""


class Intake:
    def __init__(
        self,
        builder: RunBuilder,
        run_store: RunStore,
        resolver: Resolver,
        lanes: Lanes,
        archive: Archive,
        commands: Commands,
    ) -> None:
        self._builder = builder
        self._config = builder.config
        self._run_store = run_store
        self._resolver = resolver
        self._lanes = lanes
        self._archive = archive
        self._commands = commands

    async def receive(self, arrival: Arrival) -> Accepted | Replied | Refused:
        """Decides about what arrives, in this order: whose session it is; whether it is known already; whether
        it is a command; whether it may be said here, also where the session is archived, and may lead so far.
        Only then anything is done: a command is carried out; of all else it is decided what it may do, whether
        its session is brought back or begins anew, and what happens to it if that is busy.

        What is accepted is durable on return. What is refused has changed nothing; a command that its sender may not
        say is answered so, and that answer is stored like any other.
        """
        rules = ROADS[arrival.road]
        key, session = await self._route(arrival)
        if rules.redelivered and (known := await self._find_known(arrival, key)) is not None:
            return known
        command = self._find_command(arrival)
        if (refused := self._refusal(arrival, key, session, command)) is not None:
            return await self._find_known(arrival, key, command) or refused
        if command is None:
            return await self._say(arrival, key, session)
        assert arrival.request is not None  # who can say a command can repeat it
        if FOLLOWS in arrival.request.id and arrival.request.scope == "run":
            raise Invalid(
                ID_REFUSED
            )  # the ledger says so too late: the command has been carried out
        async with self._commands.alone(arrival.request):
            return await self._obey(arrival, arrival.request, key, session, command)

    async def require(self, arrival: Arrival) -> Accepted | Replied:
        """Calls `receive`; raises if the message is refused."""
        received = await self.receive(arrival)
        if isinstance(received, Refused):
            raise Invalid(received.reason)
        return received

    async def receive_inbound(
        self,
        inbound: Inbound,
        blocks: Sequence[UserBlock] = (),
        *,
        preceding: Sequence[Op[Any]] = (),
        context: str | None = None,
        moves_address: bool = True,
        place: ChatPlace | None = None,
    ) -> str:
        """Accepts a message of a channel, with its attachments as a model can look at them.

        Returns the run's id once the message is durable; only then may it be acknowledged to the platform.
        """
        arrival = msgspec.structs.replace(
            self._arrival_of(inbound, moves_address=moves_address, place=place),
            attachments=blocks,
            preceding=preceding,
            plan=RunPlan(
                reply_to=inbound.address,
                context=context,
                answers=inbound.message_id,
                joined=inbound.joined,
            ),
        )
        return (await self.require(arrival)).run_id

    async def edit_waiting(
        self,
        inbound: Inbound,
        of: Sequence[str],
        blocks: Sequence[UserBlock] | None,
        *,
        place: ChatPlace | None,
    ) -> str | None:
        """Replaces the words of a message with one of these ids that no run has begun to answer. They are
        words, also where they read like a command. None: it is too late for that."""
        arrival = self._arrival_of(inbound, moves_address=False, place=place)
        return await self._run_store.edit(
            EditWaiting(
                of=tuple(map(inbound_once, of)),
                dedupe=inbound_once(inbound.dedupe_key),
                text=inbound.text,
                files=None if blocks is None else tuple(blocks),
                authority=self._authority(arrival),
                at=self._builder.clock.now_ms(),
            )
        )

    async def withdraw_waiting(self, inbound: Inbound, of: Sequence[str]) -> bool:
        """Removes a message that its sender has deleted; False: a run has begun to answer it, or there is none."""
        return await self._lanes.withdraw(
            WithdrawWaiting(
                of=tuple(map(inbound_once, of)),
                dedupe=inbound_once(inbound.dedupe_key),
                at=self._builder.clock.now_ms(),
                why="its sender deleted the message before the agent had read it",
            )
        )

    async def note_inbound(
        self, inbound: Inbound, words: str, *, moves_address: bool = True
    ) -> str:
        """Stores a note about an earlier message: the next run reads it."""
        arrival = msgspec.structs.replace(
            self._arrival_of(inbound, moves_address=moves_address),
            text=words,
            waits=True,
            may_command=False,
        )
        return (await self.require(arrival)).run_id

    def _arrival_of(
        self, inbound: Inbound, *, moves_address: bool, place: ChatPlace | None = None
    ) -> Arrival:
        key, where, sender = route(self._config, inbound), inbound.address, inbound.sender
        caller = self.sender(inbound, key)
        if place is not None:
            caller = caller.within(Authority(owner=True, chats=frozenset({place})))
        return Arrival(
            road="channel",
            to=key,
            text=inbound.text,
            origin=Provenance("person", source_channel=where.channel, sender=sender),
            caller=caller,
            may_command=self._may_command(inbound),
            # The platform's id says that it is the same message; its words may have been edited since.
            request=RequestId(scope=INBOUND, id=inbound.dedupe_key, of_session=False),
            plan=RunPlan(reply_to=where),
            facts=SessionFacts(
                channel=where.channel,
                display_name=inbound.chat_name,
                address=where if moves_address else None,
            ),
        )

    @property
    def _hops(self) -> AgentToAgentConfig:
        return self._config.session.agent_to_agent

    # ── whose it is ────────────────────────────────────────────────────────────────────────────

    async def _find_known(
        self, arrival: Arrival, key: SessionKey, command: SlashCommand | None = None
    ) -> Accepted | Replied | None:
        """The run of an earlier request with this id. What was accepted stays so: a client that asks again,
        having lost the answer, learns what became of it, whatever has been forbidden since."""
        found = arrival.request and await self.find_accepted(arrival.request, key)
        if not found:
            return None
        if command is not None and command.name == "stop":
            return Replied(found, key, "", stopped=[])
        self._listen(arrival, found, key)
        return Accepted(found, key, duplicate=True)

    async def find_accepted(self, request: RequestId, key: SessionKey) -> str | None:
        """The id of the run that a request became when it came before; None also where its id came with other
        words."""
        return await self._run_store.find_accepted(request.dedupe(key))

    async def _route(self, arrival: Arrival) -> tuple[SessionKey, Session | None]:
        """The session that is meant, and its row if there is one."""
        match arrival.to:
            case SessionHandle(key=key, session=session):
                return key, session
            case SessionNamed(reference=reference, agent_id=agent_id):
                assert arrival.caller is not None
                principal = arrival.caller.principal
                handle = await self._resolver.resolve(principal, reference, "talk", agent_id)
                return handle.key, handle.session
            case SessionKey() as key:
                return key, await self._run_store.session(key)

    def is_owner(self, inbound: Inbound) -> bool:
        who = (inbound.address.channel, inbound.sender, inbound.sender_aliases)
        return decide_owner(self._config.commands, *who).allowed

    def _may_command(self, inbound: Inbound) -> bool:
        """Whether the sender may say commands, and nothing came along: words beside a file are about it, also
        where it could not be fetched."""
        who = (inbound.address.channel, inbound.sender, inbound.sender_aliases)
        return not inbound.attachments and decide_commands(self._config.commands, *who).allowed

    def sender(self, inbound: Inbound, key: SessionKey) -> Caller:
        """The sender as a caller: a person on a chat may do what a message may; the owner may do everything.
        Both see the session that they speak in."""
        channel, owner = inbound.address.channel, self.is_owner(inbound)
        principal = Principal(
            name=f"{channel}:{inbound.sender}",
            role="operator",
            scopes=frozenset({"operator.admin" if owner else "operator.write"}),
            sight="named",
            sees=frozenset({key.text}),
            authority=begun_by(Authority(owner=owner), self._hops, owner=True),
        )
        return Caller(principal=principal)

    # ── what may be said ───────────────────────────────────────────────────────────────────────

    def _refusal(
        self,
        arrival: Arrival,
        key: SessionKey,
        session: Session | None,
        command: SlashCommand | None,
    ) -> Refused | None:
        """Why it may not be said, if so. A command alone says nothing in the session: the send policy is asked
        about the words behind it only, and `/send on` is possible where it denies."""
        rules = ROADS[arrival.road]
        if rules.archived == "refused" and session is not None and session.archived_at is not None:
            return Refused(
                f"session {key} is archived: it can be read, not written to; "
                f"crossclaw sessions unarchive {key} brings it back"
            )
        if command is not None and not command.words:
            return None
        if rules.send_policy:
            decision = decide_send(self._config.session.send_policy, key, session)
            if not decision.allowed:
                return Refused(BLOCKED)
        if rules.hop and arrival.caller is not None:
            decision = decide_hop(arrival.caller.principal.authority, self._hops)
            if not decision.allowed:
                return Refused(decision.reason)
        return None

    # ── commands ───────────────────────────────────────────────────────────────────────────────

    def is_command(self, inbound: Inbound) -> bool:
        """Whether a message of a channel will be carried out as a command."""
        return self._find_command(self._arrival_of(inbound, moves_address=False)) is not None

    def _find_command(self, arrival: Arrival) -> SlashCommand | None:
        asked = ROADS[arrival.road].commands and arrival.may_command and not arrival.attachments
        return self._commands.find(arrival.text) if asked else None

    async def _obey(
        self,
        arrival: Arrival,
        request: RequestId,
        key: SessionKey,
        session: Session | None,
        command: SlashCommand,
    ) -> Accepted | Replied | Refused:
        """Carries out a command, and says its words in the session that it began. A repeated request with the
        same id does not repeat it."""
        caller = arrival.caller
        assert caller is not None
        if command.name == "stop" and session is None and arrival.plan.reply_to is None:
            return Replied(request.id, key, "", stopped=[])
        known, answer = await self._find_run(request, key), CommandAnswer("")
        if known is None:
            if ROADS[arrival.road].brings_back and session and session.archived_at:
                await self._archive.bring_back(key)  # a command changes the session at once
                session = await self._run_store.session(key)
            context = CommandContext(caller, key, arrival.channel)
            answer = await self._commands.run(context, command)
        anew = request if answer.begins_anew else None
        if command.words and (answer.begins_anew or (known and known.kind == "chat")):
            said = msgspec.structs.replace(arrival, text=command.words)
            return await self._say(said, key, session, anew=anew)
        self._listen(arrival, request.id, key)
        submitted = await self._record(caller, request, arrival, key, answer)
        stopped = (answer.stopped or []) if command.name == "stop" else None
        return Replied(submitted.run_id, key, answer.text, stopped=stopped, known=known)

    async def _find_run(self, request: RequestId, key: SessionKey) -> Run | None:
        """The run of an earlier request with this id, also if it came with other words: the ledger says so when
        it is asked to accept them."""
        if request.scope == "run":
            return await self._run_store.find(request.id)
        found = await self.find_accepted(request, key)
        return await self._run_store.find(found) if found is not None else None

    async def _accept_anew(self, request: RequestId, key: SessionKey, accept: Accept) -> Submitted:
        async def is_known() -> bool:
            return await self._find_run(request, key) is not None

        return await begin_anew(key, self._builder, self._run_store, self._lanes, is_known, accept)

    async def _record(
        self,
        caller: Caller,
        request: RequestId,
        arrival: Arrival,
        key: SessionKey,
        answer: CommandAnswer,
    ) -> Submitted:
        """Stores a command and its answer as a run that has already ended; where the chat has an address, answers
        there."""
        builder, session = self._builder, _session(arrival, key, self._builder.ids.new())
        new = builder.new(
            "command",
            key,
            builder.said(arrival.text, arrival.origin),
            run_id=request.id if request.scope == "run" else None,
            authority=caller.principal.authority,
        )
        fields: dict[str, object] = {
            "about": "command",
            "text": arrival.text,
            "answer": answer.text,
        }
        note = NewEntry(entry_id=builder.ids.short(), type="note", note=fields)
        where = arrival.plan.reply_to  # the chat that it was said in
        delivery = where and NewDelivery.of_run(new, f"reply:{new.run_id}", key, where, answer.text)
        reply = [PutDelivery(new=delivery, at=builder.clock.now_ms())] if delivery else []

        brings_back = ROADS[arrival.road].brings_back
        back = [UnarchiveSession(key=key, at=builder.clock.now_ms())] if brings_back else []

        def accept(reset: Sequence[Op[Any]]) -> Awaitable[Submitted]:
            return self._run_store.accept_ended(
                new,
                session,
                reply=answer.text,
                entries=[note],
                dedupe=request.dedupe(key),
                before=[*back, *reset],
                also=reply,
            )

        if answer.begins_anew:
            return await self._accept_anew(request, key, accept)
        return await accept(())

    # ── accepting ──────────────────────────────────────────────────────────────────────────────

    async def _say(
        self,
        arrival: Arrival,
        key: SessionKey,
        session: Session | None,
        *,
        anew: RequestId | None = None,
    ) -> Accepted | Refused:
        """Accepts the words of an arrival. `anew`: the request whose command begins the session anew with them."""
        rules, authority = ROADS[arrival.road], self._authority(arrival)
        text = arrival.text
        if arrival.earlier and session is None:
            text = f"{arrival.earlier}\n\n{text}"
        at, session_id = self._builder.clock.now_ms(), self._builder.ids.new()
        said = UserMessage(content_of(text, arrival.attachments), at, arrival.origin)
        # Also when it was archived this very moment. It is touched by that, so it does not begin anew for its age.
        back = [UnarchiveSession(key=key, at=at)] if rules.brings_back else []
        when = "never" if session is None or anew is not None else rules.begins_anew
        due = await begins_anew(when, session, self._builder, self._run_store, at)
        new = self._builder.new(
            rules.kind,
            key,
            said if rules.says else None,
            run_id=arrival.run_id,
            plan=self._plan(arrival, key, session),
            authority=authority,
            cause=arrival.cause,
        )

        def accept(reset: Sequence[Op[Any]]) -> Awaitable[Submitted]:
            before = [*arrival.before, *back, *due, *reset, *arrival.preceding]
            return self._accept(arrival, new, session_id, before)

        try:
            submitted = await (self._accept_anew(anew, key, accept) if anew else accept(()))
        except TooMuchFollows as error:
            return Refused(str(error))
        self._listen(arrival, submitted.run_id, key)
        return Accepted(submitted.run_id, key, submitted.duplicate)

    def _plan(self, arrival: Arrival, key: SessionKey, session: Session | None) -> RunPlan:
        rules, plan = ROADS[arrival.road], arrival.plan
        settled: dict[str, Any] = {}
        if not plan.timeout_ms and not rules.lasts:
            settled["timeout_ms"] = self._config.agents.defaults.timeout_ms
        if arrival.replies_to_last and session is not None and session.last_address is not None:
            settled |= {"deliver": True, "reply_to": session.last_address}
        if rules.queues:
            queue = queueing_for(self._config.messages.queue, key, session, arrival.channel)
            settled["queue"] = queue
        return msgspec.structs.replace(plan, **settled)

    def _authority(self, arrival: Arrival) -> Authority:
        """The authority of the run: that of its job's maker; or else the caller's, within the config's hops, and
        with the owner's rights only by a road that may carry the owner's own message."""
        if arrival.job is not None:
            return _of_maker(arrival.job)
        assert arrival.caller is not None
        rules, given = ROADS[arrival.road], arrival.caller.principal.authority
        if rules.hop:
            given = one_hop_less(given, self._hops)
        return begun_by(given, self._hops, owner=rules.owner)

    async def _accept(
        self, arrival: Arrival, new: NewRun, session_id: str, before: list[Op[Any]]
    ) -> Submitted:
        session, request = _session(arrival, new.key, session_id), arrival.request
        once = request.dedupe(new.key) if request is not None else None
        also = arrival.also(new)
        accept = self._run_store.accept_ended if arrival.waits else self._lanes.submit
        return await accept(new, session, dedupe=once, before=before, also=also)

    def _listen(self, arrival: Arrival, run_id: str, key: SessionKey) -> None:
        """Subscribes the connection that begins a run to its events."""
        caller = arrival.caller
        if arrival.spelled is not None and caller is not None and caller.listening is not None:
            caller.listening.runs[run_id] = arrival.spelled or key.text


def _session(arrival: Arrival, key: SessionKey, session_id: str) -> NewSession:
    return NewSession(key=key, session_id=session_id, **msgspec.structs.asdict(arrival.facts))


def _of_maker(job: Job) -> Authority:
    """The authority of a tick: its maker's, as long as that exists: replacing the token does not end it."""
    makers = frozenset(CredentialRef(maker.credential_id) for maker in job.spec.authority.made_by)
    return msgspec.structs.replace(job.spec.authority, made_by=makers)


def inbound_once(key: str) -> Dedupe:
    """What makes a message of a chat platform one, however often it comes: the key of its id there."""
    return Dedupe(INBOUND, key, "")
