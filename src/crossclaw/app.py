"""The house, put together: built from the ground up, then served. The only module that knows all others."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from crossclaw import __version__
from crossclaw.agent.compaction import RESERVE_TOKENS, CompactionSettings, Compactor
from crossclaw.agent.execute import Agent
from crossclaw.agent.history import History
from crossclaw.agent.loop import Loop
from crossclaw.agent.mind import Minds
from crossclaw.agent.prompt import Prompts, PromptSettings
from crossclaw.agent.summary import TIMEOUT_S
from crossclaw.agent.toolbox import Toolbox
from crossclaw.channels.contract import Channel
from crossclaw.config import Config, Loaded, Paths
from crossclaw.config.providers import APIS
from crossclaw.config.supported import not_yet, refuse_unsupported
from crossclaw.config.token import gateway_token
from crossclaw.delivery.outbox import MayDeliver, Outbox
from crossclaw.domain.clock import Clock, SystemClock
from crossclaw.domain.events import Event, RunEnded
from crossclaw.domain.ids import Ids, RandomIds
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.around import Around
from crossclaw.gateway.auth import GATEWAY, Gatekeeper, Lock, gateway_lock
from crossclaw.gateway.hello import About as AboutGateway
from crossclaw.gateway.http.tools import tools_invoke
from crossclaw.gateway.methods import display
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.chat import Chat, Talk
from crossclaw.gateway.methods.explaining import explain_methods
from crossclaw.gateway.methods.map import Map
from crossclaw.gateway.methods.memory import Memory as MemoryMethods
from crossclaw.gateway.methods.runs import Runs as AgentRuns
from crossclaw.gateway.methods.search import Search
from crossclaw.gateway.methods.sending import Sending
from crossclaw.gateway.methods.sessions import Sessions as SessionMethods
from crossclaw.gateway.methods.table import Table
from crossclaw.gateway.methods.trace import Trace
from crossclaw.gateway.methods.upkeep import Upkeep
from crossclaw.gateway.server import Gateway, listen_host
from crossclaw.ledger.contract import Delivery, Ledger, Timer
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.policy.decision import Decision
from crossclaw.policy.send import decide_send
from crossclaw.policy.subagents import may_use_tool
from crossclaw.providers.contract import Provider
from crossclaw.providers.prices import Prices
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.runs.book import Book
from crossclaw.runs.feed import Feed
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Fire, Sweep
from crossclaw.runs.waits import Waits
from crossclaw.sessions.announce import ARCHIVE, CLEANUP, Announces
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.commands import Commands
from crossclaw.sessions.compacting import Compacting
from crossclaw.sessions.desk import Desk
from crossclaw.sessions.ending import Endings
from crossclaw.sessions.exchange import Exchanges
from crossclaw.sessions.explain import Explaining
from crossclaw.sessions.freshness import Freshness
from crossclaw.sessions.reading import Reading
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import CheckModel, Spawns
from crossclaw.sessions.status import Standing
from crossclaw.sessions.stopping import Stopping
from crossclaw.tools.contract import Tool
from crossclaw.tools.invoke import Invoker
from crossclaw.tools.read import Read
from crossclaw.tools.session_tools import session_methods, session_tools
from crossclaw.transcripts.exporter import Exporter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outside:
    """What the house is given from outside: time, ids, environment, doubles in tests."""

    environ: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    providers: Mapping[str, Provider] | None = None
    channels: tuple[Channel, ...] = ()
    tools: tuple[Tool[Any], ...] = ()
    timers: Mapping[str, Fire] | None = None
    loaded: Loaded | None = None
    """Where the config came from, for those who ask."""
    presence: Callable[[], list[dict[str, Any]]] = list
    """Who is connected, as the gateway knows it."""
    inline: bool = False
    """No threads: for virtual time."""


@dataclass(frozen=True, slots=True)
class House:
    ledger: Ledger
    book: Book
    lanes: Lanes
    waits: Waits
    slots: Slots
    desk: Desk
    endings: Endings
    archive: Archive
    feed: Feed
    sweep: Sweep
    outbox: Outbox
    exporter: Exporter
    resolver: Resolver
    door: Door
    about: About
    tools: Mapping[str, Tool[Any]]


@asynccontextmanager
async def open_house(config: Config, paths: Paths, outside: Outside) -> AsyncGenerator[House]:
    """Build in the order of the imports, then serve. Serving is where control comes back up: lanes
    are told who executes a run and what follows from its end, channels who receives."""
    refuse_unsupported(config)
    async with AsyncExitStack() as closing:
        ledger = SqliteLedger(paths.ledger_path, inline=outside.inline)
        closing.push_async_callback(_shielded, ledger.close)
        providers = _providers(config, outside)
        closing.push_async_callback(_shielded, providers.close)
        house = _build(config, paths, outside, ledger, providers)
        agent = _agent(config, paths, outside, house, providers)
        await house.exporter.repair()
        closing.push_async_callback(_shielded, house.exporter.close)
        async with anyio.create_task_group() as tasks:
            await tasks.start(house.exporter.serve)
            await tasks.start(house.lanes.serve, agent.execute, house.endings.finished)
            await tasks.start(house.outbox.serve)
            tasks.start_soon(house.sweep.serve, _timers(outside, house), name="sweep")
            for channel in outside.channels:
                await tasks.start(channel.serve, house.desk.receive)
            yield house
            tasks.cancel_scope.cancel()


OnReady = Callable[[str, str], None]
"""Called with the address and the token once the gateway listens."""


async def run_gateway(
    loaded: Loaded,
    paths: Paths,
    environ: Mapping[str, str],
    *,
    host: str | None = None,
    port: int | None = None,
    on_ready: OnReady | None = None,
) -> None:
    """Open the house and serve it on its port, until cancelled."""
    for text in not_yet(loaded.config):
        log.warning("a setting has no effect yet: %s", text)
    settings = loaded.config.gateway
    where = host or listen_host(settings)
    token = gateway_token(loaded.config, paths, environ)
    lock = gateway_lock(settings.auth, token, where)
    connected: list[Callable[[], list[dict[str, Any]]]] = [list]
    outside = Outside(environ=environ, loaded=loaded, presence=lambda: connected[0]())
    async with open_house(loaded.config, paths, outside) as house:
        gateway = _gateway(loaded.config, outside, house, lock)
        connected[0] = gateway.presence
        async with anyio.create_task_group() as tasks:
            number = await tasks.start(
                gateway.serve, where, settings.port if port is None else port
            )
            with _noted_port(paths, number):
                if on_ready is not None:
                    on_ready(f"http://{where}:{number}", token.reveal())
                await anyio.sleep_forever()


@contextmanager
def _noted_port(paths: Paths, number: int) -> Generator[None]:
    """So that the command line finds a gateway that was started on another port than configured."""
    paths.port_path.write_text(f"{number}\n", "ascii")
    try:
        yield
    finally:
        paths.port_path.unlink(missing_ok=True)


def _gateway(config: Config, outside: Outside, house: House, lock: Lock) -> Gateway:
    around = Around(clock=outside.clock, ids=outside.ids)
    invoker = Invoker(house.tools, house.resolver, config)
    return Gateway(
        house.door,
        house.feed,
        Gatekeeper({GATEWAY: lock}, outside.clock, around.limits),
        config.gateway,
        AboutGateway(
            version=__version__,
            default_agent_id=config.agents.default_id,
            session_scope=config.session.scope,
        ),
        around,
        health=house.about.snapshot,
        endpoints=[tools_invoke(invoker.invoke)],
    )


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    """A house that is told to stop still closes its doors properly."""
    with anyio.CancelScope(shield=True):
        await close()


def _build(
    config: Config, paths: Paths, outside: Outside, ledger: SqliteLedger, providers: Providers
) -> House:
    clock, ids, feed = outside.clock, outside.ids, Feed()
    book = Book(ledger, feed, clock, ledger.owner)
    slots = Slots(config.agents.defaults.max_concurrent)
    lanes = Lanes(book, slots, clock)
    waits = Waits(ledger, book, slots, clock)
    names = tuple(channel.name for channel in outside.channels)
    outbox = Outbox(
        ledger,
        {channel.name: channel for channel in outside.channels},
        clock,
        _may_deliver(config, ledger),
    )
    sweep = Sweep(ledger, lanes.wake, clock)
    feed.subscribe(_waking(outbox, sweep))
    exporter = Exporter(
        ledger,
        paths.sessions_dir,
        clock,
        inline=outside.inline,
        compress_after_ms=_days_ms(config.session.compress_after_days),
    )
    resolver = Resolver(ledger, config)
    stopping = Stopping(ledger, lanes)
    changing = Changing(ledger, stopping, exporter, feed, clock, ids)
    sends = Sends(resolver, book, waits, config, clock, ids)
    check = _check_model(config, providers)
    spawns = Spawns(ledger, resolver, book, config, check, clock, ids)
    standing = Standing(config, ledger, resolver, changing, _model_of(config, outside), check)
    endings = Endings(
        config,
        ledger,
        Exchanges(ledger, clock, ids),
        Announces(ledger, config, exporter.path_of, clock, ids),
        clock,
    )
    reading = Reading(
        ledger,
        resolver,
        clock,
        _model_of(config, outside),
        config.window_for,
        exporter.path_of,
        history_bytes=config.tools.sessions.history_bytes,
    )
    loaded = outside.loaded or Loaded(config, paths.config_path, False, {}, (), ())
    about = About(
        loaded,
        outside.environ,
        ledger,
        providers,
        names,
        clock,
        outside.presence,
        paths.ledger_path,
    )
    doors: list[Door] = []

    async def dispatch(caller: Caller, method: str, params: Any) -> Any:
        return await doors[0].dispatch(caller, method, params)

    archive = Archive(ledger, changing, feed, clock)
    freshness = Freshness(config, clock, ids)
    commands = Commands(config, book, dispatch, clock, ids)
    registry = Registry(
        [
            *about.methods(),
            *Chat(
                config,
                ledger,
                resolver,
                book,
                Talk(commands, freshness, stopping, changing),
                clock,
                ids,
            ).methods(),
            *AgentRuns(config, ledger, resolver, book, freshness, clock, ids).methods(),
            *SessionMethods(
                config, ledger, resolver, changing, clock, ids, paths.ledger_path, outside.environ
            ).methods(),
            *MemoryMethods(config, resolver, Compacting(ledger, book, feed, clock, ids)).methods(),
            *Sending(ledger, resolver, sends, spawns, names, outbox.wake, clock, ids).methods(),
            *session_methods(reading, sends, spawns, standing),
            *Upkeep(ledger, resolver, stopping, archive, changing, clock).methods(),
            *explain_methods(Explaining(config, ledger, resolver)),
            *display.methods(),
            *_for_onlookers(ledger, resolver, clock, _model_of(config, outside)),
        ]
    )
    door = Door(registry, ledger, clock)
    doors.append(door)  # commands do what methods do: through the door that knows them all
    return House(
        ledger=ledger,
        book=book,
        lanes=lanes,
        waits=waits,
        slots=slots,
        desk=Desk(config, book, commands, freshness, clock, ids),
        endings=endings,
        archive=archive,
        feed=feed,
        sweep=sweep,
        outbox=outbox,
        exporter=exporter,
        resolver=resolver,
        door=door,
        about=about,
        tools={tool.name: tool for tool in _tools(config, paths, outside, door)},
    )


def _for_onlookers(
    ledger: Ledger, resolver: Resolver, clock: Clock, model_of: Callable[[str], str]
) -> list[Method[Any]]:
    """What the control page asks beyond OpenClaw's methods."""
    table = Table(ledger.watching, resolver, clock, model_of)
    return [
        *table.methods(),
        *Search(ledger, resolver).methods(),
        *Map(ledger.watching, resolver, table, clock).methods(),
        *Trace(ledger, resolver).methods(),
    ]


def _agent(
    config: Config, paths: Paths, outside: Outside, house: House, providers: Providers
) -> Agent:
    clock, ids = outside.clock, outside.ids
    toolbox = Toolbox(house.book, house.feed, config.agents, clock, ids)
    minds = Minds(
        providers,
        house.tools,
        _prompts(config, paths, clock),
        lambda agent_id: config.model_for(agent_id, outside.environ),
        config.agents.thinking_for,
        lambda model: _output_tokens(config, model),
        config.window_for,
        lambda run, tool: may_use_tool(config, run.key, run.authority, tool),
    )
    history = History(house.ledger)
    house.feed.subscribe(history.hear)
    compactor = Compactor(
        house.ledger, history, house.book, house.feed, ids, _compaction(config), providers.get
    )
    loop = Loop(house.book, history, compactor, toolbox, house.feed, clock, ids)
    return Agent(house.ledger, minds, loop, compactor, ids)


def _compaction(config: Config) -> CompactionSettings:
    written = config.agents.defaults.compaction
    return CompactionSettings(
        reserve_tokens=max(written.reserve_tokens or RESERVE_TOKENS, written.reserve_tokens_floor),
        keep_recent_tokens=written.keep_recent_tokens,
        share=written.max_history_share,
        instructions=written.custom_instructions,
        model=written.model,
        timeout_s=written.timeout_seconds or TIMEOUT_S,
    )


def _days_ms(days: float | None) -> int | None:
    return None if days is None else int(days * 86_400_000)


def _prompts(config: Config, paths: Paths, clock: Clock) -> Prompts:
    defaults = config.agents.defaults
    settings = PromptSettings(
        defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars, defaults.user_timezone
    )
    return Prompts(lambda agent_id: paths.workspace(agent_id, config.agents), settings, clock)


def _tools(config: Config, paths: Paths, outside: Outside, door: Door) -> list[Tool[Any]]:
    return [
        *session_tools(door),
        Read(lambda agent_id: paths.workspace(agent_id, config.agents)),
        *outside.tools,
    ]


def _model_of(config: Config, outside: Outside) -> Callable[[str], str]:
    return lambda agent_id: config.model_for(agent_id, outside.environ).primary


def _check_model(config: Config, providers: Providers) -> CheckModel:
    """A short name stands for what `agents.defaults.models` says; anything else must be known."""

    def check(name: str) -> str:
        chosen = config.agents.aliases().get(name.strip().lower(), name.strip())
        providers.get(chosen)
        return chosen

    return check


def _providers(config: Config, outside: Outside) -> Providers:
    settings = {
        name: msgspec.convert(
            {
                "name": name,
                "api": entry.api,
                "base_url": entry.base_url,
                "api_key": entry.api_key.reveal() if entry.api_key else None,
                "calls_max": entry.max_concurrent,
            },
            ProviderSettings,
        )
        for name, entry in config.models.providers.items()
        if entry.api in APIS  # the config has warned about others
    }
    return Providers(
        settings,
        config.environment(outside.environ),
        extra=outside.providers,
        prices=Prices(config.models),
    )


def _output_tokens(config: Config, model: str) -> int | None:
    provider, _, model_id = model.partition("/")
    entry = config.models.providers.get(provider)
    found = entry and entry.find_model(model_id)
    return found.max_tokens if found else None


def _timers(outside: Outside, house: House) -> Fire:
    handlers: dict[str, Fire] = {
        ARCHIVE: house.archive.put_away,
        CLEANUP: house.archive.clean_up,
        **(outside.timers or {}),
    }
    unknown: set[str] = set()

    async def fire(timer: Timer) -> None:
        handler = handlers.get(timer.kind)
        if handler is not None:
            await handler(timer)
        elif timer.kind not in unknown:
            unknown.add(timer.kind)
            log.warning("nobody knows what timers of kind %s are for; they stay", timer.kind)

    return fire


def _may_deliver(config: Config, ledger: Ledger) -> MayDeliver:
    async def decide(delivery: Delivery) -> Decision:
        session = await ledger.find_session(delivery.key)
        return decide_send(config.session.send_policy, delivery.key, session)

    return decide


def _waking(outbox: Outbox, sweep: Sweep) -> Any:
    def listen(event: Event) -> None:
        if not isinstance(event, RunEnded):
            return
        plan = event.run.plan
        if plan.reply_to is not None or plan.exchange_id is not None or plan.spawned:
            outbox.wake()
        if plan.spawned:
            sweep.wake()  # a child may have to be put away at once

    return listen
