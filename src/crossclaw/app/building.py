"""Building: storey by storey, in the order of the imports."""

from collections.abc import Awaitable, Callable
from typing import Any

from crossclaw.agent.compaction import Compactor
from crossclaw.agent.execute import Agent
from crossclaw.agent.flushing import Flusher
from crossclaw.agent.history import History
from crossclaw.agent.loop import Loop
from crossclaw.agent.meter import Meters
from crossclaw.agent.mind import Minds
from crossclaw.agent.permission import Permissions
from crossclaw.agent.pictures import Pictures
from crossclaw.agent.toolbox import Toolbox
from crossclaw.app import told
from crossclaw.app.parts import Floor, Ground, House, Schedule, Site
from crossclaw.config import Config
from crossclaw.delivery.outbox import Outbox
from crossclaw.disk.threads import Disk
from crossclaw.domain.authority import Maker
from crossclaw.domain.events import EntryAppended, Event, RunEnded
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods import display
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.agreeing import Agreeing
from crossclaw.gateway.methods.chat import Chat, Talk
from crossclaw.gateway.methods.clients import Clients
from crossclaw.gateway.methods.cron import CronMethods, NameMaker
from crossclaw.gateway.methods.devices import Devices, telling
from crossclaw.gateway.methods.explaining import explain_methods
from crossclaw.gateway.methods.guests import GuestMethods
from crossclaw.gateway.methods.map import Map
from crossclaw.gateway.methods.memory import Memory as MemoryMethods
from crossclaw.gateway.methods.nodes import Nodes
from crossclaw.gateway.methods.prompting import Prompting, prompt_methods
from crossclaw.gateway.methods.runs import Runs as AgentRuns
from crossclaw.gateway.methods.search import Search
from crossclaw.gateway.methods.sending import Sending
from crossclaw.gateway.methods.sessions import Sessions as SessionMethods
from crossclaw.gateway.methods.settings import Settings
from crossclaw.gateway.methods.subscribing import Subscribing
from crossclaw.gateway.methods.table import Table
from crossclaw.gateway.methods.trace import Trace
from crossclaw.gateway.methods.upkeep import Upkeep
from crossclaw.gateway.methods.waking import Waking
from crossclaw.gateway.pairing import Pairings
from crossclaw.runs.book import Book
from crossclaw.runs.feed import Feed
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Sweep
from crossclaw.runs.waits import Waits
from crossclaw.sandbox.places import Places
from crossclaw.schedule.clockwork import Clockwork
from crossclaw.schedule.heartbeats import Heartbeats
from crossclaw.schedule.hooks import Hooks
from crossclaw.schedule.jobs import Jobs
from crossclaw.schedule.notices import Notices
from crossclaw.schedule.work import Work
from crossclaw.schedule.zones import local_zone, user_zone
from crossclaw.sessions.announce import ARCHIVE, Announces
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
from crossclaw.sessions.guest_names import GuestNames
from crossclaw.sessions.guests import Guests
from crossclaw.sessions.reading import Reading
from crossclaw.sessions.revoking import Revoking
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import Spawns
from crossclaw.sessions.status import Standing
from crossclaw.sessions.stopping import Stopping
from crossclaw.tools.contract import Tool
from crossclaw.tools.edit import Edit
from crossclaw.tools.egress import Egress, is_installed
from crossclaw.tools.exec import Exec
from crossclaw.tools.guests import guest_methods
from crossclaw.tools.mcp_agreed import AgreedTools
from crossclaw.tools.mcp_servers import McpServers
from crossclaw.tools.read import Read
from crossclaw.tools.session_tools import session_methods, session_tools
from crossclaw.tools.toolset import Toolsets
from crossclaw.tools.web_fetch import WebFetch
from crossclaw.tools.write import Write
from crossclaw.transcripts.exporter import Exporter

Dispatch = Callable[[Caller, str, Any], Awaitable[Any]]


def build(site: Site) -> House:
    ground = _ground(site)
    doors: list[Door] = []
    houses: list[House] = []

    async def dispatch(caller: Caller, method: str, params: Any) -> Any:
        """Commands do what methods do: through the door that knows them all."""
        return await doors[0].dispatch(caller, method, params)

    floor = _floor(site, ground, dispatch)
    schedule = _schedule(site, ground)
    about = _about(site)
    methods = [
        *about.methods(),
        *_talking(site, ground, floor),
        *_of_sessions(site, ground, floor),
        *_around(site, ground, floor, schedule),
        *prompt_methods(_prompting(site, lambda: houses[0].toolsets)),
    ]
    door = Door(Registry(methods), site.ledger, site.clock, site.credentials)
    doors.append(door)
    houses.append(_furnished(site, ground, floor, schedule, about, door))
    return houses[0]


def _furnished(
    site: Site, ground: Ground, floor: Floor, schedule: Schedule, about: About, door: Door
) -> House:
    config = site.config
    places = Places(
        config,
        site.workspace_of,
        site.paths.state_dir,
        site.outside.environ,
        (site.paths.config_path, *site.loaded.files),
    )
    servers = McpServers(
        config.mcp.servers, places.shield, AgreedTools(site.ledger, site.outside.clock)
    )
    tools = [*session_tools(door), *_own_tools(config, places), *site.outside.tools]
    return House(
        config=config,
        credentials=site.credentials,
        revoking=ground.revoking,
        ledger=site.ledger,
        book=ground.book,
        lanes=ground.lanes,
        waits=ground.waits,
        slots=ground.slots,
        desk=Desk(
            config,
            ground.book,
            floor.archive,
            floor.commands,
            floor.freshness,
            site.clock,
            site.ids,
        ),
        endings=floor.endings,
        archive=floor.archive,
        feed=ground.feed,
        sweep=ground.sweep,
        outbox=ground.outbox,
        exporter=ground.exporter,
        resolver=ground.resolver,
        door=door,
        about=about,
        places=places,
        servers=servers,
        toolsets=Toolsets(tools, config, places.decide, servers),
        schedule=schedule,
        guests=floor.guests,
        guest_names=floor.guest_names,
        pairings=floor.pairings,
    )


# ── the storeys ────────────────────────────────────────────────────────────────────────────────


def _ground(site: Site) -> Ground:
    config, ledger, clock, feed = site.config, site.ledger, site.clock, Feed()
    book = Book(ledger, feed, clock, ledger.owner, told.budget_of(config), told.say_time(site))
    slots = Slots(config.agents.defaults.max_concurrent)
    lanes = Lanes(book, slots, clock, site.credentials)
    channels = {channel.name: channel for channel in site.outside.channels}
    outbox = Outbox(ledger, channels, clock, told.may_deliver(config, ledger, site.credentials))
    sweep = Sweep(ledger, lanes.wake, clock, by_time=(ARCHIVE,))
    feed.subscribe(_waking(outbox, sweep), RunEnded)
    exporter = Exporter(
        ledger,
        site.paths.sessions_dir,
        clock,
        inline=site.outside.inline,
        compress_after_ms=told.days_ms(config.session.compress_after_days),
    )
    return Ground(
        feed=feed,
        book=book,
        slots=slots,
        lanes=lanes,
        waits=Waits(ledger, book, slots, clock),
        outbox=outbox,
        sweep=sweep,
        exporter=exporter,
        resolver=Resolver(ledger, config),
        revoking=Revoking(ledger, lanes, site.credentials),
    )


def _floor(site: Site, ground: Ground, dispatch: Dispatch) -> Floor:
    config, ledger, clock, ids = site.config, site.ledger, site.clock, site.ids
    book, feed, resolver, exporter = ground.book, ground.feed, ground.resolver, ground.exporter
    stopping = Stopping(ledger, ground.lanes)
    changing = Changing(config, ledger, stopping, exporter, feed, clock, ids)
    budgets = Budgets(ledger, config, clock)
    announces = Announces(ledger, config, exporter.path_of, clock, ids)
    return Floor(
        stopping=stopping,
        changing=changing,
        archive=Archive(ledger, changing, feed, clock),
        sends=Sends(resolver, book, ground.waits, config, clock, ids),
        spawns=Spawns(ledger, resolver, book, config, site.models, clock, ids),
        budgets=budgets,
        standing=Standing(
            config, ledger, resolver, changing, site.models, budgets, told.introductions(site)
        ),
        reading=_reading(site, ground, budgets),
        endings=Endings(config, ledger, Exchanges(ledger, clock, ids), announces, clock),
        freshness=Freshness(config, clock, ids),
        commands=Commands(config, book, dispatch, clock, ids),
        guest_names=GuestNames(ledger, site.credentials, clock),
        guests=Guests(ledger, book, ground.slots, clock, ids),
        pairings=Pairings(ledger, telling(site.outside.clients), clock, ids, site.credentials),
    )


def _reading(site: Site, ground: Ground, budgets: Budgets) -> Reading:
    return Reading(
        site.ledger,
        ground.resolver,
        site.clock,
        site.models.in_use,
        site.config.window_for,
        ground.exporter.path_of,
        history_bytes=site.config.tools.sessions.history_bytes,
        budgets=budgets,
        is_gone=site.is_gone,
    )


def _schedule(site: Site, ground: Ground) -> Schedule:
    config, ledger, clock, ids = site.config, site.ledger, site.clock, site.ids
    book, feed = ground.book, ground.feed
    local = user_zone(config.agents.defaults.user_timezone, local_zone(site.outside.environ))
    notices = Notices(config, ledger, book, clock, ids)
    disk = Disk(inline=site.outside.inline)
    heartbeats = Heartbeats(config, ledger, notices, site.workspace_of, clock, local, disk)
    work = Work(config, ledger, notices, heartbeats, site.channels, clock, ids)
    clockwork = Clockwork(
        ledger,
        book,
        feed,
        work,
        heartbeats,
        clock,
        local,
        site.credentials,
        lambda agent_id: config.agents.find(agent_id) is not None,
        disk.run,
        config.cron.max_concurrent_runs,
    )
    jobs = Jobs(
        config,
        ledger,
        clockwork,
        site.channels,
        site.credentials,
        site.models.check,
        feed,
        clock,
        ids,
        local,
    )
    hooks = Hooks(config, ledger, ground.resolver, book, notices, site.models.check, clock, ids)
    return Schedule(notices, heartbeats, work, clockwork, jobs, hooks)


def build_agent(site: Site, house: House) -> Agent:
    config, clock, ids = site.config, site.clock, site.ids
    toolbox = Toolbox(house.book, house.feed, config, site.credentials, clock, ids)
    minds = Minds(
        site.providers,
        house.toolsets,
        told.prompts(site),
        told.models_of(site),
        site.models,
        config.agents.thinking_for,
        lambda model: told.output_tokens(config, model),
        config.facts_for,
        config.window_for,
        Meters(house.ledger, site.providers.price, clock, told.room_of(config)),
        Permissions(site.credentials, told.require_model(site)),
        config.params_for,
    )
    history = History(house.ledger)
    house.feed.subscribe(history.hear, EntryAppended)
    compactor = Compactor(
        house.ledger,
        history,
        house.book,
        house.feed,
        ids,
        told.compaction(config),
        site.providers.get,
        lambda model: config.facts_for(model).window,
        Flusher(config.agents.defaults.compaction.memory_flush, config),
    )
    loop = Loop(
        house.book,
        history,
        compactor,
        toolbox,
        house.feed,
        clock,
        ids,
        Pictures(),
        config.agents.defaults.cache_retention,
    )
    return Agent(minds, loop, compactor, ids)


# ── the methods behind the door ────────────────────────────────────────────────────────────────


def _prompting(site: Site, toolsets: Callable[[], Toolsets]) -> Prompting:
    models = told.models_of(site)
    return Prompting(
        site.config, told.prompts(site).system, toolsets, lambda each: models(each).primary
    )


def _about(site: Site) -> About:
    return About(
        site.loaded,
        site.outside.environ,
        site.ledger,
        site.models,
        site.channels,
        site.clock,
        site.outside.presence,
        site.paths.ledger_path,
    )


def _talking(site: Site, ground: Ground, floor: Floor) -> list[Method[Any]]:
    config, ledger, clock, ids = site.config, site.ledger, site.clock, site.ids
    book, resolver = ground.book, ground.resolver
    talk = Talk(floor.commands, floor.freshness, floor.stopping, floor.changing)
    chat = Chat(config, ledger, resolver, book, talk, clock, ids)
    log_path = site.paths.log_path(config.logging)
    return [
        *chat.methods(),
        *Clients(config, chat, floor.sends, floor.spawns, log_path, ids).methods(),
        *AgentRuns(
            config, ledger, resolver, book, floor.freshness, site.models, clock, ids
        ).methods(),
        *Sending(config, ledger, resolver, site.channels, ground.outbox.wake, clock, ids).methods(),
    ]


def _of_sessions(site: Site, ground: Ground, floor: Floor) -> list[Method[Any]]:
    config, ledger, clock, ids = site.config, site.ledger, site.clock, site.ids
    resolver, changing = ground.resolver, floor.changing
    compacting = Compacting(ledger, ground.book, ground.feed, clock, ids)
    return [
        *SessionMethods(
            config,
            ledger,
            resolver,
            changing,
            clock,
            ids,
            site.paths.ledger_path,
            floor.budgets,
            site.models,
        ).methods(),
        *Subscribing(resolver).methods(),
        *MemoryMethods(config, resolver, compacting).methods(),
        *session_methods(floor.reading, floor.sends, floor.spawns, floor.standing),
        *guest_methods(floor.guests),
        *Upkeep(config, ledger, resolver, floor.stopping, floor.archive, changing, clock).methods(),
        *Agreeing(ledger, clock).methods(),
        *explain_methods(Explaining(config, ledger, resolver, site.channels)),
        *_for_onlookers(site, resolver),
    ]


def _for_onlookers(site: Site, resolver: Resolver) -> list[Method[Any]]:
    """What the control page asks beyond OpenClaw's methods."""
    ledger, clock = site.ledger, site.clock
    table = Table(ledger.watching, resolver, clock, site.models.in_use, site.is_gone)
    return [
        *table.methods(),
        *Search(ledger, resolver).methods(),
        *Map(ledger.watching, resolver, table, clock).methods(),
        *Trace(ledger, resolver).methods(),
    ]


def _around(site: Site, ground: Ground, floor: Floor, schedule: Schedule) -> list[Method[Any]]:
    """Settings, jobs, hooks, nodes and devices."""
    config, clock, ids, clients = site.config, site.clock, site.ids, site.outside.clients
    nodes = Nodes(config, ground.resolver, ground.book, schedule.notices, clients, clock, ids)
    return [
        *Settings(site.loaded, site.outside.environ, clock, site.outside.take_rules).methods(),
        *display.methods(),
        *CronMethods(
            config, schedule.jobs, site.paths.ledger_path, _maker_names(site, floor)
        ).methods(),
        *Waking(config, site.ledger, schedule.notices, schedule.heartbeats, clock).methods(),
        *schedule.hooks.methods(),
        *nodes.methods(),
        *Devices(floor.pairings, clients, ground.revoking.end_runs, clock).methods(),
        *GuestMethods(floor.guest_names, ground.revoking.end_runs).methods(),
    ]


def _maker_names(site: Site, floor: Floor) -> NameMaker:
    """Who made something, for people."""

    def name(maker: Maker) -> tuple[str, bool]:
        known = {each.credential_id: each for each in floor.pairings.devices}
        found = known.get(maker.credential_id)
        said = found.particulars.display_name or found.particulars.client_id if found else None
        kind, _, rest = maker.credential_id.partition(":")
        words = {"gateway": "the gateway's token", "hooks": "the hooks' token"}
        shown = words.get(kind) or f"{kind} {said or rest.rpartition(':')[2][:12]}"
        return shown, site.credentials.stands([maker])

    return name


def _own_tools(config: Config, places: Places) -> list[Tool[Any]]:
    return [
        Read(places),
        Write(places),
        Edit(places),
        Exec(places, lambda agent_id: config.agents.exec_for(agent_id, config.tools.exec)),
        *([WebFetch(Egress(), config.tools.web.fetch)] if is_installed() else []),
    ]


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
