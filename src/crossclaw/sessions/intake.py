"""The intake: messages come in and become runs."""

from hashlib import sha256

import msgspec

from crossclaw.config import Config
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import NewRun, RunPlan
from crossclaw.domain.sessions import NewSession, Session
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller
from crossclaw.ledger.operations import Dedupe, Submitted
from crossclaw.policy.owner import decide_commands, decide_owner
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.commands import Commands
from crossclaw.sessions.freshness import Freshness
from crossclaw.sessions.queueing import queueing_for
from crossclaw.sessions.route import route


class Intake:
    def __init__(
        self,
        config: Config,
        run_store: RunStore,
        archive: Archive,
        commands: Commands,
        freshness: Freshness,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._config = config
        self._run_store = run_store
        self._archive = archive
        self._commands = commands
        self._freshness = freshness
        self._clock = clock
        self._ids = ids

    async def receive(self, inbound: Inbound) -> str:
        """A message from a channel becomes a run. The same platform message twice is one run."""
        key, where = route(self._config, inbound), inbound.address
        session = NewSession(
            key=key,
            session_id=self._ids.new(),
            channel=where.channel,
            display_name=inbound.chat_name,
            address=where,
        )
        # The platform's id says that it is the same message; its words may have been edited since.
        once = Dedupe("inbound", inbound.dedupe_key, "")
        if (known := await self._run_store.find_accepted(once.scope, once.key)) is not None:
            return known
        known_session = await self._session(key)
        text, caller = inbound.text, self._sender(inbound, key)
        provenance = Provenance("person", source_channel=where.channel, sender=inbound.sender)
        may_command = decide_commands(self._config.commands, where.channel, inbound.sender).allowed
        if may_command and (command := self._commands.find(text)) is not None:
            answer = await self._commands.run(caller, key, command)
            if answer.go_on_with is None:
                said = UserMessage(text, self._clock.now_ms(), provenance)
                return (await self._commands.record(caller, session, said, answer, once)).run_id
            text, known_session = answer.go_on_with, await self._session(key)
        new = NewRun(
            run_id=self._ids.new(),
            key=key,
            kind="chat",
            message=UserMessage(text, self._clock.now_ms(), provenance),
            authority=caller.principal.authority,
            plan=RunPlan(
                reply_to=where,
                timeout_ms=self._config.agents.defaults.timeout_ms,
                queue=queueing_for(self._config.messages.queue, key, known_session, where.channel),
            ),
        )
        before = self._freshness.before_message(known_session)
        return (await self._run_store.submit(new, session, dedupe=once, before=before)).run_id

    async def _session(self, key: SessionKey) -> Session | None:
        """As it stands. People know nothing of archives: who writes to a chat is heard there."""
        found = await self._run_store.session(key)
        if found is None or found.archived_at is None:
            return found
        await self._archive.bring_back(key)
        return await self._run_store.session(key)

    def _sender(self, inbound: Inbound, key: SessionKey) -> Caller:
        """A person on a chat may what a message may; the owner may all. Both see the session that they
        speak in."""
        channel = inbound.address.channel
        owner = decide_owner(self._config.commands, channel, inbound.sender).allowed
        scope = "operator.admin" if owner else "operator.write"
        principal = Principal(
            name=f"{channel}:{inbound.sender}",
            role="operator",
            scopes=frozenset({scope}),
            sight="named",
            sees=frozenset({key.text}),
            authority=msgspec.structs.replace(self._authority(), owner=owner),
        )
        return Caller(principal=principal)

    async def submit(
        self, key: SessionKey, text: str, *, run_id: str | None = None, plan: RunPlan | None = None
    ) -> Submitted:
        """A message from inside the house. With a run id of the caller's, the same call twice is
        one run, and another message under that id is refused."""
        new = NewRun(
            run_id=run_id or self._ids.new(),
            key=key,
            kind="agent",
            message=UserMessage(text, self._clock.now_ms(), Provenance("person")),
            authority=self._authority(),
            plan=plan or RunPlan(timeout_ms=self._config.agents.defaults.timeout_ms),
        )
        dedupe = None if run_id is None else Dedupe("run", run_id, digest(key.text, text))
        return await self._run_store.submit(
            new, NewSession(key=key, session_id=self._ids.new()), dedupe=dedupe
        )

    def _authority(self) -> Authority:
        return Authority(hops_left=self._config.session.agent_to_agent.max_hops)


def digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode()).hexdigest()
