"""Settings: what the config says for each room, in the room's own types."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial
from pathlib import Path

from crossclaw.agent.compaction import RESERVE_TOKENS, CompactionSettings
from crossclaw.agent.prompt import Prompts
from crossclaw.agent.run_setup import OUTPUT_TOKENS_MAX, ModelProfile, ProfileOf
from crossclaw.agent.session_files import SessionFiles
from crossclaw.agent.summary import TIMEOUT_S
from crossclaw.agent.workspace import WorkspaceFiles
from crossclaw.app.parts import Resources
from crossclaw.channels.account_roles import role_of
from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.config.model import ChosenModel
from crossclaw.delivery.prefixes import PrefixFacts, with_prefix
from crossclaw.disk.threads import Disk
from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import AGENTS_REMEMBERED
from crossclaw.domain.approvals import NewApproval
from crossclaw.domain.authority import Authority
from crossclaw.domain.budgets import Allowance
from crossclaw.domain.clock import Clock
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.models import ListedModel
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import NewDelivery, PutDelivery, TakenDelivery
from crossclaw.policy.approving_chats import approval_text, chats_to_ask
from crossclaw.policy.colleagues import Colleague, colleagues
from crossclaw.policy.credentials import ENDED, Credentials
from crossclaw.policy.decision import Decision
from crossclaw.policy.sandbox import sandboxes_write
from crossclaw.policy.send import decide_send
from crossclaw.providers.answer_limits import thinking_tokens
from crossclaw.providers.contract import ModelRequest
from crossclaw.runs.roles import UPKEEP, Roles
from crossclaw.schedule.zones import local_zone, user_zone
from crossclaw.sessions.introductions import THREADS as INTRODUCING_THREADS
from crossclaw.sessions.introductions import Introductions
from crossclaw.sessions.route import find_chats

PROMPT_THREADS = 4  # a workspace on a slow disk must not hold up the others
WORDS_MAX = (
    32_000  # of one answer where the config says nothing; a long file fits, a mistake stays cheap
)


def compaction(config: Config) -> CompactionSettings:
    written = config.agents.defaults.compaction
    return CompactionSettings(
        reserve_tokens=max(written.reserve_tokens or RESERVE_TOKENS, written.reserve_tokens_floor),
        keep_recent_tokens=written.keep_recent_tokens,
        share=written.max_history_share,
        instructions=written.custom_instructions,
        model=written.model,
        timeout_s=written.timeout_seconds or TIMEOUT_S,
    )


# Asked with every claim or every run, so looked up once for each agent.


class AgentBudgets:
    """What each agent may spend, by the rules in force."""

    def __init__(self, config: CurrentConfig) -> None:
        self._config = config
        self._kept = lru_cache(AGENTS_REMEMBERED)(self._look_up)

    def find(self, agent_id: str) -> Allowance | None:
        return self._kept(agent_id, self._config.epoch)

    def _look_up(self, agent_id: str, _epoch: int) -> Allowance | None:
        return self._config.agents.budget_for(agent_id)


def models_of(resources: Resources) -> Callable[[str], ChosenModel]:
    look_up = partial(resources.config.model_for, environ=resources.inputs.environ)
    return lru_cache(AGENTS_REMEMBERED)(look_up)


def workspace_of(resources: Resources) -> Callable[[str], Path]:
    return lru_cache(AGENTS_REMEMBERED)(resources.workspace_of)


def days_ms(days: float | None) -> int | None:
    return None if days is None else int(days * 86_400_000)


def introductions(resources: Resources) -> Introductions:
    disk = Disk(inline=resources.inputs.inline, threads=INTRODUCING_THREADS)
    return Introductions(resources.config, workspace_of(resources), disk)


class Colleagues:
    """The agents that a session's agent may send to, by the rules of an epoch."""

    def __init__(self, config: CurrentConfig) -> None:
        self._config = config
        self._kept = lru_cache(AGENTS_REMEMBERED)(self._look_up)

    def of(self, key: SessionKey, authority: Authority, epoch: int) -> Sequence[Colleague]:
        # Equal keys may be of two agents: the text of a job's, a hook's or a node's does not name it.
        return self._kept(key, key.agent_id, authority, epoch)

    def _look_up(
        self, key: SessionKey, _agent_id: str, authority: Authority, _epoch: int
    ) -> Sequence[Colleague]:
        return colleagues(self._config, key, authority)


class ModelProfiles:
    """How an agent uses a model. Looked up once, until the rules change or a server tells something else of its model."""

    def __init__(self, config: CurrentConfig) -> None:
        self._config = config
        self.of: ProfileOf = lru_cache(AGENTS_REMEMBERED)(self._look_up)

    def _look_up(
        self, agent_id: str, model: str, _epoch: int, _listed: ListedModel | None
    ) -> ModelProfile:
        config = self._config
        return ModelProfile(
            facts=config.facts_for(model),
            output_tokens_max=output_tokens(config, model),
            window=config.window_for(agent_id, model),
            thinking=config.agents.thinking_for(agent_id) or "off",
            params=config.params_for(agent_id, model),
        )


def prompts(resources: Resources) -> Prompts:
    defaults = resources.config.agents.defaults
    files = WorkspaceFiles(defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars)
    find = workspace_of(resources)
    disk = Disk(inline=resources.inputs.inline, threads=PROMPT_THREADS)
    return Prompts(
        find,
        SessionFiles(files, find, disk),
        Colleagues(resources.config).of,
        lambda: sandboxes_write(resources.config.agents),
        introductions(resources).of,
        resources.config,
    )


def owner_zone(resources: Resources) -> tzinfo:
    written = resources.config.agents.defaults.user_timezone
    return user_zone(written, local_zone(resources.inputs.environ))


class OwnerClock:
    """Weekday, date, time and zone, as the owner's clock shows them. Asked with every claim, so the
    words of a minute are kept."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._kept = lru_cache(2)(self._say_minute)

    def say(self, at_ms: int) -> str:
        return self._kept(at_ms // 60_000)

    def _say_minute(self, minute: int) -> str:
        here = datetime.fromtimestamp(minute * 60, UTC).astimezone(self._zone)
        return f"{here:%A, %Y-%m-%d %H:%M} {_name_of(self._zone, here)}"


def _name_of(zone: tzinfo, here: datetime) -> str:
    """The name of a zone: Europe/Madrid rather than CET; UTC is UTC."""
    name = str(getattr(zone, "key", None) or here.tzname())
    return name.removeprefix("Etc/")


def output_tokens(config: Config, model: str) -> int:
    """The longest answer of a model, in tokens: as configured, else a quarter of what a known model
    can write; never more than half of its window."""
    provider, _, model_id = model.partition("/")
    entry = config.models.providers.get(provider)
    found = entry and entry.find_model(model_id)
    facts = config.facts_for(model)
    usual = min(facts.output // 4, WORDS_MAX) if facts.output else OUTPUT_TOKENS_MAX
    wanted = (found.max_tokens if found else None) or max(usual, OUTPUT_TOKENS_MAX)
    return max(1, min(wanted, facts.output or wanted, facts.window // 2))


def room_of(config: Config, model: str, request: ModelRequest) -> int:
    """How many tokens a model may think with, beside its words."""
    return thinking_tokens(config.facts_for(model), request.thinking, more=request.more_room)


class DeliveryPolicy:
    """Decides whether a delivery may go out. The session that speaks must be allowed to, and so must the one whose chat
    it speaks in: a job or a client may have named any chat."""

    def __init__(self, config: Config, ledger: Ledger, credentials: Credentials) -> None:
        self._config, self._ledger, self._credentials = config, ledger, credentials

    async def decide(self, taken: TakenDelivery) -> Decision:
        if not self._credentials.stands(taken.delivery.authority.made_by):
            return Decision(False, ENDED)
        key, policy = taken.delivery.key, self._config.session.send_policy
        own = decide_send(policy, key, taken.session)
        if not own.allowed:
            return own
        where = taken.delivery.address
        decision = own
        for there, session in await find_chats(self._config, self._ledger, where):
            found = taken.session if there == key else session
            decision = decide_send(policy, there, found, where.channel)
            if not decision.allowed:
                break
        return decision


class GivingUp:
    """Which of the gateways that share a ledger gives up a delivery: whoever keeps the account; where nobody does, whoever
    has the upkeep. Another one would go by its own clock, and by an account that it does not see."""

    def __init__(self, accounts: LiveAccounts, roles: Roles) -> None:
        self._accounts, self._roles = accounts, roles

    async def is_ours(self, where: Address) -> bool:
        place, roles = self._accounts.place_of(where), self._roles
        if place is None:
            return roles.has(UPKEEP)
        role = role_of(*place)
        return roles.has(role) or (roles.has(UPKEEP) and await roles.find_holder(role) is None)


class ReplyPrefixes:
    """Puts the response prefix of the account before a reply, or the one for all accounts."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def add(self, text: str, live: LiveAccount, key: SessionKey, session: Session | None) -> str:
        own = live.settings.response_prefix
        prefix = own if own is not None else self._config.messages.response_prefix
        if not prefix or not text.strip():
            return text
        agent = self._config.agents.find(key.agent_id)
        name = (agent.identity.name or agent.name) if agent else None
        thinking = session.thinking if session else None
        facts = PrefixFacts(name, session.model if session else None, thinking)
        return with_prefix(text, prefix, facts)


def _others(run: Run) -> str | None:
    """Who a run works for, if not the owner: a chat or a session."""
    if run.authority.owner:
        return None
    where = run.plan.reply_to
    return f"{where.channel} {where.to}" if where is not None else f"{run.kind} {run.key.shown}"


class ApprovalMessages:
    """Tells the owner's chats of a call that needs a yes."""

    def __init__(self, config: Config, clock: Clock, accounts: LiveAccounts) -> None:
        self._config, self._clock, self._accounts = config, clock, accounts

    def tell(self, run: Run, new: NewApproval) -> list[PutDelivery]:
        found = chats_to_ask(
            self._config, run.key, run.plan.reply_to, self._accounts, owner=run.authority.owner
        )
        text = approval_text(new, run.key, _others(run))
        return [
            PutDelivery(
                new=NewDelivery.of_run(
                    run, f"approval:{run.run_id}:{new.tool_use_id}:{number}", run.key, chat, text
                ),
                at=self._clock.now_ms(),
            )
            for number, chat in enumerate(found)
        ]
