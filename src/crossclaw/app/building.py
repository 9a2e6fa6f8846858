"""Builds every part of a gateway from parts that are there: the services of the rooms in the order of the imports, the door from their
methods, and on the door what calls it."""

from functools import partial
from pathlib import Path
from typing import Any

from crossclaw.agent.compaction import Compactor
from crossclaw.agent.execute import RunExecutor
from crossclaw.agent.flushing import Flusher
from crossclaw.agent.history import History
from crossclaw.agent.loop import Loop
from crossclaw.agent.meter import Meters
from crossclaw.agent.permission import Permissions
from crossclaw.agent.request_preparation import RequestPreparation
from crossclaw.agent.run_setup import AgentModels, RunSetups
from crossclaw.agent.toolbox import Toolbox
from crossclaw.agent.transcribing import Transcribing
from crossclaw.app import methods, settings
from crossclaw.app.attention import AttentionSources
from crossclaw.app.leaving import DRAIN_S
from crossclaw.app.model_settings import renewing
from crossclaw.app.parts import (
    Gateway,
    GatewayServices,
    Resources,
    RunServices,
    Schedule,
    SessionServices,
)
from crossclaw.app.placement import Fitness, Workspaces
from crossclaw.channels.hosting import HostServices
from crossclaw.channels.supervisor import ChannelSupervisor
from crossclaw.config import Config
from crossclaw.delivery.outbox import Outbox
from crossclaw.delivery.signals import ChatSignals
from crossclaw.disk.threads import Disk
from crossclaw.domain.events import (
    ApprovalAsked,
    ApprovalSettled,
    EntryAppended,
    RunEnded,
    RunStarted,
)
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Registry, methods_of
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.approvals import telling_approvals
from crossclaw.runs.approvals import Approvals
from crossclaw.runs.claiming import Claiming
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.lease import GatewayLease
from crossclaw.runs.neighbours import answers_of
from crossclaw.runs.roles import Roles
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Sweep
from crossclaw.runs.waits import Waits
from crossclaw.sandbox.places import Places
from crossclaw.schedule.clockwork import Clockwork
from crossclaw.schedule.heartbeats import Heartbeats
from crossclaw.schedule.hooks import Hooks
from crossclaw.schedule.job_runs import JobRuns
from crossclaw.schedule.jobs import Jobs
from crossclaw.schedule.notices import Notices
from crossclaw.sessions.archive import Archive
from crossclaw.sessions.budgets import Budgets
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.channel_intake import ChannelIntake
from crossclaw.sessions.channel_pairing import ChannelPairing
from crossclaw.sessions.commands import Commands
from crossclaw.sessions.ending import Endings
from crossclaw.sessions.exchange import Exchanges
from crossclaw.sessions.guest_names import GuestNames
from crossclaw.sessions.guests import Guests
from crossclaw.sessions.guests_elsewhere import GuestsForNeighbours, NeighboursGuests
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.reading import SessionReading
from crossclaw.sessions.retention import Retention
from crossclaw.sessions.revoking import Revoking
from crossclaw.sessions.run_builder import RunBuilder
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import Spawns
from crossclaw.sessions.spawn_report import ARCHIVE, SpawnReports
from crossclaw.sessions.status import SessionStatus
from crossclaw.sessions.stopping import Stopping
from crossclaw.tools.approving import ApprovalGate
from crossclaw.tools.contract import Tool
from crossclaw.tools.edit import Edit
from crossclaw.tools.egress import Egress, is_installed
from crossclaw.tools.exec import Exec
from crossclaw.tools.guests import guest_methods
from crossclaw.tools.mcp_agreed import AgreedTools
from crossclaw.tools.mcp_servers import McpServers
from crossclaw.tools.message import MessageTool
from crossclaw.tools.read import ReadTool
from crossclaw.tools.session_tools import session_methods, session_tools
from crossclaw.tools.toolset import Toolsets
from crossclaw.tools.web_fetch import WebFetch
from crossclaw.tools.write import Write
from crossclaw.transcripts.exporter import Exporter


def build(resources: Resources) -> Gateway:
    run_services = _run_services(resources)
    session_services = _session_services(resources, run_services)
    schedule = _schedule(resources, run_services, session_services.intake)
    gateway_services = methods.gateway_services(resources, run_services)
    sources = AttentionSources(
        resources.ledger,
        resources.clock,
        resources.neighbours,
        gateway_services.about,
        gateway_services.pairings,
        run_services.channels,
    )
    services = [
        gateway_services.about,
        *methods.talking(resources, run_services, session_services),
        *methods.of_sessions(resources, run_services, session_services),
        *methods.of_the_rest(
            resources, run_services, session_services, schedule, gateway_services.pairings
        ),
        gateway_services.prompting,
        methods.attention(resources, run_services, session_services, sources),
    ]
    guests = GuestsForNeighbours(session_services.guests)
    answering = answers_of(*services, sources, guests, gateway_services.webhooks)
    resources.neighbours.begin_answering(answering)
    tell_approvals = telling_approvals(resources.inputs.clients)
    run_services.feed.subscribe(tell_approvals, ApprovalAsked, ApprovalSettled, outward=True)
    known = [
        *methods_of(*services),
        *session_methods(
            session_services.reading,
            session_services.sends,
            session_services.spawns,
            session_services.session_status,
        ),
        *guest_methods(session_services.guests),
    ]
    door = Door(Registry(known), resources.ledger, resources.clock, resources.credentials)
    return _gateway(resources, run_services, session_services, schedule, gateway_services, door)


def _places(resources: Resources) -> Places:
    return Places(
        resources.config,
        resources.workspace_of,
        resources.paths.state_dir,
        resources.inputs.environ,
        (resources.paths.config_path, *resources.loaded.files, *_key_file(resources)),
    )


def _key_file(resources: Resources) -> list[Path]:
    """The file of the ledger key, which no agent may read: it opens the secrets of all gateways and
    proves configs."""
    name = resources.config.ledger.key_file
    return [resources.paths.resolve(name)] if name else []


def _gateway(
    resources: Resources,
    run_services: RunServices,
    session_services: SessionServices,
    schedule: Schedule,
    gateway_services: GatewayServices,
    door: Door,
) -> Gateway:
    """The whole gateway, with the tools of agents; session tools are made from methods of the door."""
    config = resources.config
    places = _places(resources)
    servers = McpServers(
        config.mcp.servers, places.shield, AgreedTools(resources.ledger, resources.inputs.clock)
    )
    message = MessageTool(
        places,
        resources.ledger,
        resources.clock,
        run_services.outbox.wake,
        lambda: bool(resources.inputs.channels or resources.wanted_accounts()),
    )
    own = [*_own_tools(config, places), message]
    tools = [*session_tools(door), *own, *resources.inputs.tools]
    return Gateway(
        context=resources.context,
        config=config,
        credentials=resources.credentials,
        revoking=session_services.revoking,
        ledger=resources.ledger,
        run_store=run_services.run_store,
        lanes=run_services.lanes,
        waits=run_services.waits,
        slots=run_services.slots,
        commands=session_services.commands,
        intake=session_services.intake,
        endings=session_services.endings,
        archive=session_services.archive,
        retention=Retention(
            config,
            resources.ledger,
            session_services.archive,
            session_services.changing,
            resources.clock,
        ),
        feed=run_services.feed,
        sweep=run_services.sweep,
        outbox=run_services.outbox,
        signals=run_services.signals,
        channels=run_services.channels,
        hosting=session_services.hosting,
        webhooks=gateway_services.webhooks,
        exporter=run_services.exporter,
        resolver=run_services.resolver,
        door=door,
        about=gateway_services.about,
        prompting=gateway_services.prompting,
        places=places,
        servers=servers,
        toolsets=Toolsets(tools, config, places.decide, servers, _gate(resources, run_services)),
        approvals=run_services.approvals,
        schedule=schedule,
        guests=session_services.guests,
        guest_names=session_services.guest_names,
        pairings=gateway_services.pairings,
        claiming=run_services.claiming,
        shared_config=resources.shared_config,
        lease=run_services.lease,
        neighbours=resources.neighbours,
        roles=run_services.roles,
    )


def _gate(resources: Resources, run_services: RunServices) -> ApprovalGate:
    """The gate for tool calls that need approval. A gateway opened for a single call does not wait
    for a yes: nobody could answer it."""
    can_ask = resources.inputs.keeps_time
    return ApprovalGate(resources.config, run_services.approvals, can_ask=can_ask)


# ── the services, from below ───────────────────────────────────────────────────────────────────


def _run_services(resources: Resources) -> RunServices:
    config, ledger, clock = resources.config, resources.ledger, resources.clock
    feed = resources.context.feed
    roles = Roles(ledger.gateways)
    channels = _channels(resources, roles)
    outbox = _outbox(resources, roles)
    budgets = settings.AgentBudgets(config)
    owner_clock = settings.OwnerClock(settings.owner_zone(resources))
    run_store = RunStore(ledger, feed, clock, ledger.owner, budgets.find, owner_clock.say)
    slots = Slots(config.agents.defaults.max_concurrent)
    claiming = _claiming(resources)
    may_claim = None if claiming is None else claiming.may_claim
    lanes = Lanes(run_store, slots, clock, resources.credentials, may_claim)
    sweep = Sweep(ledger, lanes.wake, clock, by_time=(ARCHIVE,))
    feed.subscribe(sweep.waking(outbox.wake), RunEnded)
    feed.subscribe(lambda _event: outbox.wake(), ApprovalAsked)
    approval_messages = settings.ApprovalMessages(config, clock, resources.accounts)
    exporter = Exporter(
        ledger,
        resources.paths.sessions_dir,
        clock,
        inline=resources.inputs.inline,
        compress_after_ms=settings.days_ms(config.session.compress_after_days),
        is_ours=ledger.gateways is None,
    )
    return RunServices(
        feed=feed,
        run_store=run_store,
        slots=slots,
        lanes=lanes,
        waits=Waits(ledger, run_store, slots, clock),
        outbox=outbox,
        signals=ChatSignals(
            config, ledger, resources.accounts, outbox, resources.context.feed.subscribe
        ),
        sweep=sweep,
        exporter=exporter,
        resolver=Resolver(ledger, config),
        approvals=Approvals(resources.context, slots, lanes.paused, approval_messages.tell),
        channels=channels,
        claiming=claiming,
        lease=_lease(resources, lanes, slots, claiming),
        roles=roles,
    )


def _channels(resources: Resources, roles: Roles) -> ChannelSupervisor:
    supervisor = ChannelSupervisor(
        resources.accounts,
        resources.paths.channel_folder,
        resources.inputs.http,
        inline=resources.inputs.inline,
        roles=roles if resources.ledger.gateways else None,
    )
    resources.config.listen(supervisor.look_again)
    return supervisor


def _outbox(resources: Resources, roles: Roles) -> Outbox:
    config, ledger, accounts = resources.config, resources.ledger, resources.accounts
    return Outbox(
        ledger,
        accounts,
        resources.clock,
        settings.DeliveryPolicy(config, ledger, resources.credentials).decide,
        settings.ReplyPrefixes(config).add,
        settings.GivingUp(accounts, roles).is_ours,
    )


def _claiming(resources: Resources) -> Claiming | None:
    membership, owner = resources.ledger.gateways, resources.ledger.owner
    if membership is None:
        return None
    workspaces = Workspaces(membership, owner, resources.config, resources.workspace_of)
    fitness = Fitness(
        workspaces, resources.shared_config, resources.shared_keys, renewing(resources)
    )
    return Claiming(
        membership,
        owner,
        resources.config.ledger.agents,
        is_elsewhere=workspaces.are_elsewhere,
        find_obstacle=fitness.find_obstacle,
    )


def _lease(
    resources: Resources, lanes: Lanes, slots: Slots, claiming: Claiming | None
) -> GatewayLease | None:
    membership, leave = resources.ledger.gateways, resources.inputs.leave
    if membership is None or claiming is None:
        return None

    def drain() -> None:
        slots.close()
        if leave is not None:
            leave(DRAIN_S)

    return GatewayLease(membership, claiming, lanes, drain, room=lambda: slots.free)


def _session_services(resources: Resources, run_services: RunServices) -> SessionServices:
    config, ledger, clock, ids = resources.config, resources.ledger, resources.clock, resources.ids
    run_store, feed, resolver, exporter = (
        run_services.run_store,
        run_services.feed,
        run_services.resolver,
        run_services.exporter,
    )
    stopping = Stopping(ledger, run_services.lanes)
    changing = Changing(resources.context, stopping, exporter)
    budgets = Budgets(ledger, config, clock)
    archive = Archive(ledger, changing, feed, clock)
    builder = RunBuilder(config, clock, ids)
    commands = Commands(config, run_store)
    intake = Intake(builder, run_store, resolver, run_services.lanes, archive, commands)
    pairing = ChannelPairing(config, ledger, resources.accounts, clock)
    spawn_reports = SpawnReports(ledger, exporter.path_of, builder)
    elsewhere = NeighboursGuests(resources.neighbours) if ledger.gateways else None
    guests = Guests(ledger, run_store, run_services.slots, clock, ids, elsewhere)
    if elsewhere is not None:
        feed.subscribe(guests.on_event, RunStarted, outward=True)
    return SessionServices(
        stopping=stopping,
        revoking=Revoking(ledger, run_services.lanes, resources.credentials),
        changing=changing,
        archive=archive,
        builder=builder,
        commands=commands,
        intake=intake,
        sends=Sends(intake, resolver, run_store, run_services.waits, builder),
        spawns=Spawns(intake, ledger, resolver, run_store, resources.models, builder),
        budgets=budgets,
        session_status=SessionStatus(
            resources.context,
            resolver,
            changing,
            resources.models,
            budgets,
            settings.introductions(resources),
        ),
        reading=_reading(resources, run_services, budgets),
        endings=Endings(config, ledger, Exchanges(ledger, builder), spawn_reports, clock),
        guest_names=GuestNames(ledger, resources.credentials, clock),
        guests=guests,
        channel_pairing=pairing,
        hosting=_hosting(resources, run_services, intake, pairing),
    )


def _hosting(
    resources: Resources, run_services: RunServices, intake: Intake, pairing: ChannelPairing
) -> HostServices:
    receiving = ChannelIntake(
        resources.context, intake, resources.accounts, pairing, run_services.signals
    )
    return HostServices(
        receive=receiving.receive,
        may_talk=receiving.may_talk,
        ledger=resources.ledger,
        clock=resources.clock,
        wake=run_services.outbox.look_again,
    )


def _reading(resources: Resources, run_services: RunServices, budgets: Budgets) -> SessionReading:
    return SessionReading(
        resources.context,
        run_services.resolver,
        resources.models.in_use,
        run_services.exporter.path_of,
        budgets,
    )


def _schedule(resources: Resources, run_services: RunServices, intake: Intake) -> Schedule:
    context, config = resources.context, resources.config
    local = settings.owner_zone(resources)
    notices = Notices(config, intake)
    disk = Disk(inline=resources.inputs.inline)
    heartbeats = Heartbeats(context, resources.workspace_of, local, disk)
    job_runs = JobRuns(context, heartbeats, resources.accounts)
    clockwork = Clockwork(context, intake, job_runs, heartbeats, local, disk.run)
    jobs = Jobs(context, clockwork, resources.accounts, resources.models.check, local)
    hooks = Hooks(context, run_services.resolver, intake, notices, resources.models.check)
    return Schedule(notices, heartbeats, job_runs, clockwork, jobs, hooks)


def build_agent(resources: Resources, gateway: Gateway) -> RunExecutor:
    config, clock, ids = resources.config, resources.clock, resources.ids
    toolbox = Toolbox(resources.context, gateway.run_store, gateway.toolsets.gate)
    prompts = settings.prompts(resources)
    models = AgentModels(
        resources.providers,
        settings.models_of(resources),
        resources.models,
        settings.ModelProfiles(config).of,
    )
    setups = RunSetups(
        config,
        models,
        gateway.toolsets,
        prompts,
        Meters(gateway.ledger, resources.providers.price, clock, partial(settings.room_of, config)),
        Permissions(resources.credentials, resources.models.require_for),
    )
    history = History(gateway.ledger)
    gateway.feed.subscribe(history.on_event, EntryAppended)
    gateway.feed.subscribe(prompts.files.on_event, EntryAppended)
    compactor = Compactor(
        resources.context,
        history,
        gateway.run_store,
        settings.compaction(config),
        resources.providers.get,
        Flusher(config.agents.defaults.compaction.memory_flush, config, gateway.toolsets.gate),
    )
    transcribing = Transcribing(
        config, resources.providers.speech, gateway.run_store, gateway.ledger, clock
    )
    before = RequestPreparation(prompts.files, transcribing, gateway.run_store, ids)
    loop = Loop(resources.context, gateway.run_store, history, compactor, toolbox, before)
    return RunExecutor(setups, loop, compactor, ids)


def _own_tools(config: Config, places: Places) -> list[Tool[Any]]:
    return [
        ReadTool(places),
        Write(places),
        Edit(places),
        Exec(places, lambda agent_id: config.agents.exec_for(agent_id, config.tools.exec)),
        *([WebFetch(Egress(), config.tools.web.fetch)] if is_installed() else []),
    ]
