"""Hooks: messages of programs elsewhere. Their words are information from outside, fenced as such, and their
runs may do what a stranger's may: nothing that only the owner may."""

from collections.abc import Callable
from typing import Any, Literal

from crossclaw.domain.agents import ThinkingLevel, normalize_agent_id
from crossclaw.domain.aliases import Filled, NameText, Positive
from crossclaw.domain.errors import Forbidden, Invalid
from crossclaw.domain.jobs import ACK_CHARS_MAX, WakeMode, beyond_heartbeat
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance
from crossclaw.domain.runs import Outcome, Run, RunPlan
from crossclaw.domain.sessions import NewEntry, SessionFacts
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver, SessionHandle
from crossclaw.ledger.operations import Inject, Op
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.job_runs import bound_accounts, find_address, report_of_run
from crossclaw.schedule.notices import Notices
from crossclaw.sessions.arrivals import Arrival, RequestId
from crossclaw.sessions.intake import Intake

NAME_CHARS_MAX = 64  # it stands in the line that says where the words come from
KeyFrom = Literal["request", "template", "config"]
"""Who chose the session key: the sender; the sender, within a template that begins with `hook:`; or the owner alone."""


class HookWakeParams(Params, frozen=True):
    text: Filled
    mode: WakeMode = "now"
    name: str = "Hook"
    idempotency_key: NameText | None = None


class HookAgentParams(Params, frozen=True):
    message: Filled
    name: str = "Hook"
    agent_id: str | None = None
    session_key: str | None = None
    key_from: KeyFrom = "request"
    wake_mode: WakeMode = "now"
    deliver: bool = True
    channel: str | None = None
    to: str | None = None
    account_id: Filled | None = None
    thread_id: str | int | None = None
    model: str | None = None
    thinking: ThinkingLevel | None = None
    timeout_seconds: Positive | None = None
    idempotency_key: NameText | None = None


class Woken(Result, frozen=True):
    ok: bool
    mode: str


class HookAccepted(Result, frozen=True):
    ok: bool
    run_id: str


class Hooks:
    def __init__(
        self,
        context: ServiceContext,
        resolver: Resolver,
        intake: Intake,
        notices: Notices,
        check_model: Callable[[str], str],
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._intake = intake
        self._notices = notices
        self._check_model = check_model
        self._clock = context.clock
        self._ids = context.ids

    @method("hooks.wake", "hook", "run", "A hook's words for the main session.", hidden=True)
    async def wake(self, caller: Caller, params: HookWakeParams) -> Woken:
        await self._notices.give(
            _filled(params.text, "text"),
            params.mode,
            "hook wake",
            Provenance("hook", sender=hook_name(params.name)),
            caller,
            _once(params.idempotency_key, "wake", params.text, params.mode),
        )
        return Woken(ok=True, mode=params.mode)

    @method("hooks.agent", "hook", "run", "A hook's words for a session of its own.", hidden=True)
    async def agent(self, caller: Caller, params: HookAgentParams) -> HookAccepted:
        text, name = _filled(params.message, "message"), hook_name(params.name)
        handle = await self._session(caller, params)
        arrival = Arrival(
            road="hook",
            to=handle,
            text=text,
            origin=Provenance("hook", sender=name),
            caller=caller,
            request=_once(params.idempotency_key, "agent", text, params.session_key or "", name),
            plan=await self._plan(params, handle.key.agent_id),
            facts=SessionFacts(display_name=name),
        )
        return HookAccepted(ok=True, run_id=(await self._intake.require(arrival)).run_id)

    async def _session(self, caller: Caller, params: HookAgentParams) -> SessionHandle:
        key = self._key(params, self._agent(params.agent_id))
        spelled = (params.session_key or "").strip().startswith("agent:")
        handle = await self._resolver.resolve(
            self._resolver.given(caller.principal, key),
            key.with_agent if spelled else key.text,
            "talk",
            params.agent_id,
        )
        if params.session_key and params.key_from != "config":
            self._refuse_agent(handle.key.agent_id)
        return handle

    def _agent(self, named: str | None) -> str:
        agents = self._config.agents
        if not named:
            return agents.default_id
        agent_id = agents.get(named).id
        self._refuse_agent(agent_id)
        return agent_id

    def _refuse_agent(self, agent_id: str) -> None:
        """Refuses an agent that hooks may not ask for, by name or by the key of one of its sessions."""
        allowed = self._config.hooks.allowed_agent_ids
        if allowed is None or "*" in allowed:
            return
        if agent_id not in map(normalize_agent_id, allowed):
            raise Forbidden(
                f"hooks may not use agent {agent_id}; hooks.allowedAgentIds would allow it"
            )

    def _key(self, params: HookAgentParams, agent_id: str) -> SessionKey:
        hooks, asked = self._config.hooks, (params.session_key or "").strip()
        if not asked:
            fixed = hooks.default_session_key
            return _parsed(fixed, agent_id) if fixed else SessionKey.hook(agent_id, self._ids.new())
        key, prefixes = _parsed(asked, agent_id), hooks.allowed_session_key_prefixes
        if params.key_from == "config":
            return key
        within_hooks = params.key_from == "template" and key.kind == "hook"
        if not within_hooks and not hooks.allow_request_session_key:
            raise Forbidden(
                "a sessionKey that the request chooses, by itself or through a mapping, needs "
                "hooks.allowRequestSessionKey"
            )
        if prefixes and not key.text.startswith(prefixes):
            raise Forbidden("this sessionKey has none of hooks.allowedSessionKeyPrefixes")
        return key

    async def _plan(self, params: HookAgentParams, agent_id: str) -> RunPlan:
        main = await self._ledger.find_session(self._config.main_key(agent_id))
        thread_id = None if params.thread_id in (None, "") else str(params.thread_id)
        named = (params.channel, params.to, params.account_id, thread_id)
        bound = bound_accounts(self._config, agent_id)
        address = find_address(*named, main=main, bound=bound) if params.deliver else None
        return RunPlan(
            deliver=address is not None,
            reply_to=address,
            model=self._check_model(params.model) if params.model else None,
            thinking=params.thinking,
            timeout_ms=params.timeout_seconds * 1000 if params.timeout_seconds else None,
            ack_chars_max=ACK_CHARS_MAX,
        )

    async def follow(self, run: Run, outcome: Outcome) -> list[Op[Any]]:
        """The operations after a hook's run: the agent's main session gets its words, marked as another's."""
        if run.kind != "hook":
            return []
        main = self._config.main_key(run.key.agent_id)
        words = beyond_heartbeat(outcome.reply or outcome.error or "", ACK_CHARS_MAX)
        if run.key == main or not words:
            return []
        own, known = await self._ledger.find_session(run.key), await self._ledger.find_session(main)
        if known is None:
            return []
        at, name = self._clock.now_ms(), (own and own.display_name) or "Hook"
        note = report_of_run(f"Hook {name}", run.key, outcome, words, at)
        entry = NewEntry(entry_id=self._ids.short(), message=note)
        return [Inject(key=main, entries=[entry], at=at)]


def hook_name(text: str) -> str:
    """A name from outside, fit to stand in our own line: no brackets, no line breaks, not long."""
    kept = "".join(c if c.isalnum() or c in " ._-/#@" else " " for c in text)
    return " ".join(kept.split())[:NAME_CHARS_MAX] or "Hook"


def _filled(text: str, name: str) -> str:
    if not text.strip():
        raise Invalid(f"{name} required")
    return text.strip()


def _once(key: str | None, *words: str) -> RequestId | None:
    return RequestId(scope="hook", id=key, words=words, of_session=False) if key else None


def _parsed(text: str, agent_id: str) -> SessionKey:
    """The key of a text; a bare name is a session of the agent's."""
    if ":" in text or text == "main" or text.startswith("node-"):
        return SessionKey.parse(text, agent_id=agent_id)
    return SessionKey.named(agent_id, text)
