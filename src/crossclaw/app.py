"""The house, put together: built from the ground up, then served. The only module that knows all others."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import anyio
import msgspec

from crossclaw import __version__
from crossclaw.agent.compaction import RESERVE_TOKENS, CompactionSettings, Compactor
from crossclaw.agent.execute import Agent
from crossclaw.agent.history import History
from crossclaw.agent.loop import Loop
from crossclaw.agent.meter import Meters
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
from crossclaw.domain.runs import Outcome, Run
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.around import Around
from crossclaw.gateway.auth import GATEWAY, Gatekeeper, Lock, gateway_lock
from crossclaw.gateway.client import Client
from crossclaw.gateway.edge import HOOKS, Endpoint
from crossclaw.gateway.hello import About as AboutGateway
from crossclaw.gateway.http.following import Followers
from crossclaw.gateway.http.hooks import Dispatch as HookDispatch
from crossclaw.gateway.http.hooks import hook_endpoints, hook_lock
from crossclaw.gateway.http.mcp import mcp_endpoint
from crossclaw.gateway.http.metrics import Meter, metrics_endpoint
from crossclaw.gateway.http.openai import Asking
from crossclaw.gateway.http.openai_chat import chat_endpoints
from crossclaw.gateway.http.openai_responses import responses_endpoint
from crossclaw.gateway.http.tools import tools_invoke
from crossclaw.gateway.methods import display
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.chat import Chat, Talk
from crossclaw.gateway.methods.clients import Clients
from crossclaw.gateway.methods.cron import CronMethods
from crossclaw.gateway.methods.devices import Devices, telling
from crossclaw.gateway.methods.explaining import explain_methods
from crossclaw.gateway.methods.map import Map
from crossclaw.gateway.methods.memory import Memory as MemoryMethods
from crossclaw.gateway.methods.nodes import Nodes
from crossclaw.gateway.methods.runs import Runs as AgentRuns
from crossclaw.gateway.methods.search import Search
from crossclaw.gateway.methods.sending import Sending
from crossclaw.gateway.methods.sessions import Sessions as SessionMethods
from crossclaw.gateway.methods.settings import Settings
from crossclaw.gateway.methods.table import Table
from crossclaw.gateway.methods.trace import Trace
from crossclaw.gateway.methods.upkeep import Upkeep
from crossclaw.gateway.methods.waking import Waking
from crossclaw.gateway.pairing import Pairings
from crossclaw.gateway.server import Gateway, listen_host
from crossclaw.ledger.contract import ASIDE, Delivery, Ledger, Timer
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.policy.decision import Decision
from crossclaw.policy.send import decide_send
from crossclaw.providers.contract import Provider
from crossclaw.providers.prices import Prices
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.runs.book import Book, BudgetOf, Follow
from crossclaw.runs.feed import Feed
from crossclaw.runs.lanes import Ending, Execute, Finished, Lanes, Progress
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Fire, Sweep
from crossclaw.runs.waits import Waits
from crossclaw.sandbox.places import Places
from crossclaw.schedule.clockwork import Clockwork
from crossclaw.schedule.heartbeats import Heartbeats
from crossclaw.schedule.hooks import Hooks
from crossclaw.schedule.jobs import Jobs
from crossclaw.schedule.notices import Notices
from crossclaw.schedule.work import Work
from crossclaw.schedule.zones import local_zone, user_zone
from crossclaw.sessions.announce import ARCHIVE, CLEANUP, Announces
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.budgets import Budgets
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.commands import Commands
from crossclaw.sessions.compacting import Compacting
from crossclaw.sessions.desk import Desk
from crossclaw.sessions.ending import Endings
from crossclaw.sessions.exchange import Exchanges
from crossclaw.sessions.explain import Explaining
from crossclaw.sessions.freshness import Freshness
from crossclaw.sessions.guests import Guests
from crossclaw.sessions.reading import Reading
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import CheckModel, Spawns
from crossclaw.sessions.status import Standing
from crossclaw.sessions.stopping import Stopping
from crossclaw.tools.contract import Tool
from crossclaw.tools.edit import Edit
from crossclaw.tools.egress import Egress, is_installed
from crossclaw.tools.exec import Exec
from crossclaw.tools.guests import GuestTools, guest_methods
from crossclaw.tools.invoke import Invoker
from crossclaw.tools.mcp_servers import McpServers
from crossclaw.tools.read import Read
from crossclaw.tools.session_tools import session_methods, session_tools
from crossclaw.tools.toolset import Toolsets
from crossclaw.tools.web_fetch import WebFetch
from crossclaw.tools.write import Write
from crossclaw.transcripts.exporter import Exporter

log = logging.getLogger(__name__)

AGENTS_REMEMBERED = 1_024  # far more than anybody configures


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
    clients: Callable[[], list[Client]] = list
    """Their connections."""
    inline: bool = False
    """No threads: for virtual time."""
    keeps_time: bool = True
    """Whether jobs run here. A house that is opened for one call leaves them to the gateway."""


@dataclass(frozen=True, slots=True)
class Schedule:
    notices: Notices
    heartbeats: Heartbeats
    work: Work
    clockwork: Clockwork
    jobs: Jobs
    hooks: Hooks


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
    places: Places
    servers: McpServers
    toolsets: Toolsets
    schedule: Schedule
    guests: Guests
    pairings: Pairings


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
        await house.places.prepare()
        await house.pairings.load()
        agent = _agent(config, paths, outside, house, providers)
        await house.exporter.repair()
        closing.push_async_callback(_shielded, house.exporter.close)
        async with anyio.create_task_group() as tasks:
            await tasks.start(house.exporter.serve)
            await tasks.start(house.servers.serve)
            execute = _executing(agent, house.guests)
            await tasks.start(house.lanes.serve, execute, _finished(house))
            await tasks.start(house.outbox.serve)
            tasks.start_soon(house.sweep.serve, _timers(outside, house), name="sweep")
            for channel in outside.channels:
                await tasks.start(channel.serve, house.desk.receive)
            if outside.keeps_time and config.cron.enabled:
                await tasks.start(house.schedule.clockwork.serve)
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
    locks = {GATEWAY: gateway_lock(settings.auth, token, where)}
    if (hooks := hook_lock(loaded.config.hooks, token, where)) is not None:
        locks[HOOKS] = hooks
    connected: list[Gateway] = []
    outside = Outside(
        environ=environ,
        loaded=loaded,
        presence=lambda: [each for gateway in connected for each in gateway.presence()],
        clients=lambda: [each for gateway in connected for each in gateway.clients()],
    )
    async with open_house(loaded.config, paths, outside) as house:
        gateway = build_gateway(loaded.config, outside, house, locks)
        connected.append(gateway)
        async with anyio.create_task_group() as tasks:
            number = await tasks.start(
                gateway.serve, where, settings.port if port is None else port
            )
            with _noted_port(paths, number):
                log.info("the gateway listens at http://%s:%s", where, number)
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


def build_gateway(
    config: Config, outside: Outside, house: House, locks: Mapping[str, Lock]
) -> Gateway:
    around = Around(clock=outside.clock, ids=outside.ids)
    return Gateway(
        house.door,
        house.feed,
        Gatekeeper(locks, outside.clock, around.limits),
        house.pairings,
        config.gateway,
        AboutGateway(
            version=__version__,
            default_agent_id=config.agents.default_id,
            session_scope=config.session.scope,
        ),
        around,
        health=house.about.snapshot,
        endpoints=_endpoints(config, outside, house),
    )


def _endpoints(config: Config, outside: Outside, house: House) -> list[Endpoint]:
    """What is served over HTTP beside the page and the sign of life."""
    door, ids, clock = house.door, outside.ids, outside.clock
    invoker = Invoker(house.toolsets, house.resolver, config, _model_of(config, outside))
    guest_tools = GuestTools(
        door, house.toolsets, house.guests, config, _model_of(config, outside), ids
    )
    asking = Asking(door, Followers(house.feed), config, ids)
    meter = Meter(house.feed, lambda: house.slots.taken, lambda: len(outside.presence()) - 1)
    chat, responses = (
        config.gateway.http.endpoints.chat_completions,
        config.gateway.http.endpoints.responses,
    )
    return [
        tools_invoke(invoker.invoke),
        mcp_endpoint(guest_tools),
        metrics_endpoint(meter, door),
        *hook_endpoints(config.hooks, _dispatching(house)),
        *(chat_endpoints(asking, clock, chat.max_body_bytes) if chat.enabled else []),
        *(
            [responses_endpoint(asking, clock, responses.max_body_bytes)]
            if responses.enabled
            else []
        ),
    ]


def _dispatching(house: House) -> HookDispatch:
    async def dispatch(principal: Principal, method: str, params: dict[str, Any]) -> Any:
        return await house.door.dispatch(Caller(principal=principal), method, params)

    return dispatch


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    """A house that is told to stop still closes its doors properly."""
    with anyio.CancelScope(shield=True):
        await close()


def _build(
    config: Config, paths: Paths, outside: Outside, ledger: SqliteLedger, providers: Providers
) -> House:
    clock, ids, feed = outside.clock, outside.ids, Feed()
    book = Book(ledger, feed, clock, ledger.owner, _budget_of(config))
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
    budgets = Budgets(ledger, config.agents, clock)
    standing = Standing(
        config, ledger, resolver, changing, _model_of(config, outside), check, budgets
    )
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
        budgets=budgets,
    )
    schedule = _schedule(config, paths, outside, ledger, resolver, book, feed)
    guests = Guests(ledger, book, slots, clock, ids)
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
    pairings = Pairings(ledger, telling(outside.clients), clock, ids)
    doors: list[Door] = []

    async def dispatch(caller: Caller, method: str, params: Any) -> Any:
        return await doors[0].dispatch(caller, method, params)

    archive = Archive(ledger, changing, feed, clock)
    freshness = Freshness(config, clock, ids)
    commands = Commands(config, book, dispatch, clock, ids)
    talk = Talk(commands, freshness, stopping, changing)
    chat = Chat(config, ledger, resolver, book, talk, clock, ids)
    log_path = paths.log_path(config.logging)
    registry = Registry(
        [
            *about.methods(),
            *Settings(loaded, outside.environ, clock).methods(),
            *chat.methods(),
            *Clients(config, chat, sends, spawns, log_path, ids).methods(),
            *AgentRuns(config, ledger, resolver, book, freshness, clock, ids).methods(),
            *SessionMethods(
                config,
                ledger,
                resolver,
                changing,
                clock,
                ids,
                paths.ledger_path,
                outside.environ,
                budgets,
            ).methods(),
            *MemoryMethods(config, resolver, Compacting(ledger, book, feed, clock, ids)).methods(),
            *Sending(ledger, resolver, names, outbox.wake, clock, ids).methods(),
            *session_methods(reading, sends, spawns, standing),
            *Upkeep(ledger, resolver, stopping, archive, changing, clock).methods(),
            *explain_methods(Explaining(config, ledger, resolver)),
            *display.methods(),
            *_schedule_methods(config, paths, outside, ledger, schedule),
            *Nodes(config, resolver, book, schedule.notices, outside.clients, clock, ids).methods(),
            *Devices(pairings, outside.clients, clock).methods(),
            *guest_methods(guests),
            *_for_onlookers(ledger, resolver, clock, _model_of(config, outside)),
        ]
    )
    door = Door(registry, ledger, clock)
    doors.append(door)  # commands do what methods do: through the door that knows them all
    places = Places(
        config.agents,
        config.tools,
        lambda agent_id: paths.workspace(agent_id, config.agents),
        paths.state_dir,
        outside.environ,
    )
    servers = McpServers(config.mcp.servers)
    tools = [*session_tools(door), *_own_tools(config, places), *outside.tools]
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
        places=places,
        servers=servers,
        toolsets=Toolsets(tools, config, places.decide, servers),
        schedule=schedule,
        guests=guests,
        pairings=pairings,
    )


def _schedule(
    config: Config,
    paths: Paths,
    outside: Outside,
    ledger: Ledger,
    resolver: Resolver,
    book: Book,
    feed: Feed,
) -> Schedule:
    clock, ids = outside.clock, outside.ids
    local = user_zone(config.agents.defaults.user_timezone, local_zone(outside.environ))
    notices = Notices(config, ledger, book, clock, ids)
    heartbeats = Heartbeats(
        config,
        ledger,
        notices,
        lambda agent_id: paths.workspace(agent_id, config.agents),
        clock,
        local,
    )
    work = Work(config, ledger, notices, heartbeats, clock, ids)
    clockwork = Clockwork(
        ledger, book, feed, work, heartbeats, clock, local, config.cron.max_concurrent_runs
    )
    jobs = Jobs(config, ledger, clockwork, feed, clock, ids, local)
    hooks = Hooks(config, ledger, resolver, book, notices, clock, ids)
    return Schedule(notices, heartbeats, work, clockwork, jobs, hooks)


def _schedule_methods(
    config: Config, paths: Paths, outside: Outside, ledger: Ledger, schedule: Schedule
) -> list[Method[Any]]:
    waking = Waking(config, ledger, schedule.notices, schedule.heartbeats, outside.clock)
    cron = CronMethods(config, schedule.jobs, paths.ledger_path)
    return [*cron.methods(), *waking.methods(), *schedule.hooks.methods()]


def _finished(house: House) -> Finished:
    """What follows from an end, as sessions see it and as the schedule does."""

    async def finished(run: Run, outcome: Outcome) -> Follow:
        schedule = house.schedule
        follow = await house.endings.finished(run, outcome)
        ops = [
            *follow.ops,
            *await schedule.work.follow(run, outcome),
            *await schedule.hooks.follow(run, outcome),
        ]
        return Follow(ops, follow.withheld)

    return finished


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
        house.toolsets,
        _prompts(config, paths, clock),
        lambda agent_id: config.model_for(agent_id, outside.environ),
        config.agents.thinking_for,
        lambda model: _output_tokens(config, model),
        config.window_for,
        Meters(house.ledger, providers.price, clock),
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


def _budget_of(config: Config) -> BudgetOf:
    """Asked with every claim, so looked up once for each agent."""
    return lru_cache(AGENTS_REMEMBERED)(config.agents.budget_for)


def _days_ms(days: float | None) -> int | None:
    return None if days is None else int(days * 86_400_000)


def _prompts(config: Config, paths: Paths, clock: Clock) -> Prompts:
    defaults = config.agents.defaults
    settings = PromptSettings(
        defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars, defaults.user_timezone
    )
    return Prompts(lambda agent_id: paths.workspace(agent_id, config.agents), settings, clock)


def _executing(agent: Agent, guests: Guests) -> Execute:
    """Who carries out a run: the agent loop, or, where an agent lives outside, that one."""

    async def execute(run: Run, progress: Progress) -> Ending:
        return await (guests if run.key.is_guest else agent).execute(run, progress)

    return execute


def _own_tools(config: Config, places: Places) -> list[Tool[Any]]:
    return [
        Read(places),
        Write(places),
        Edit(places),
        Exec(places, lambda agent_id: config.agents.exec_for(agent_id, config.tools.exec)),
        *([WebFetch(Egress(), config.tools.web.fetch)] if is_installed() else []),
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
        ASIDE: house.archive.set_aside,
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
