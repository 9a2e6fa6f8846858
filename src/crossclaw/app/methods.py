"""Builds the services whose `@method` handlers are the gateway's methods."""

from collections.abc import Callable
from functools import partial

from crossclaw.app import settings
from crossclaw.app.attention import AttentionSources
from crossclaw.app.model_settings import renewing, trial_provider
from crossclaw.app.parts import (
    GatewayServices,
    Resources,
    RunServices,
    Schedule,
    SessionServices,
)
from crossclaw.app.shared_keys import LocalKeyStore, SharedKeyStore
from crossclaw.config.changing import ConfigChanges
from crossclaw.disk.growth import StoreGrowth
from crossclaw.disk.threads import Disk
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.keys import SessionKey
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.http.webhooks import PassingWebhooks
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.agents import AgentMethods
from crossclaw.gateway.methods.agreeing import Agreeing
from crossclaw.gateway.methods.approvals import ApprovalMethods
from crossclaw.gateway.methods.attention import AttentionMethods
from crossclaw.gateway.methods.channel_pairing import ChannelPairingMethods
from crossclaw.gateway.methods.channels import ChannelMethods
from crossclaw.gateway.methods.chat import Chat
from crossclaw.gateway.methods.clients import Clients
from crossclaw.gateway.methods.cron import CronMethods, NameCredential
from crossclaw.gateway.methods.deliveries import DeliveryMethods
from crossclaw.gateway.methods.devices import Devices, telling
from crossclaw.gateway.methods.display import Renderer
from crossclaw.gateway.methods.figures import FigureMethods
from crossclaw.gateway.methods.forking import Forking
from crossclaw.gateway.methods.gateways import GatewayMethods
from crossclaw.gateway.methods.guests import GuestMethods
from crossclaw.gateway.methods.leaving import LeavingMethods
from crossclaw.gateway.methods.map import Map
from crossclaw.gateway.methods.memory import MemoryMethods
from crossclaw.gateway.methods.model_service import KeyKeeper, ModelTrials
from crossclaw.gateway.methods.nodes import Nodes
from crossclaw.gateway.methods.prompting import Prompting
from crossclaw.gateway.methods.rehearsals import RehearsalMethods
from crossclaw.gateway.methods.runs import AgentRuns
from crossclaw.gateway.methods.search import Search
from crossclaw.gateway.methods.sending import Sending
from crossclaw.gateway.methods.sessions import SessionMethods
from crossclaw.gateway.methods.settings import Settings
from crossclaw.gateway.methods.subscribing import Subscribing
from crossclaw.gateway.methods.table import SessionTable
from crossclaw.gateway.methods.trace import Trace
from crossclaw.gateway.methods.tracing import TraceMethods
from crossclaw.gateway.methods.upkeep import Upkeep
from crossclaw.gateway.methods.waking import Waking
from crossclaw.gateway.node_calls import NodeCalls
from crossclaw.gateway.node_events import NodeEvents
from crossclaw.gateway.pairing import Pairings
from crossclaw.sessions.compacting import Compacting
from crossclaw.sessions.explain import Explaining
from crossclaw.sessions.outgoing import OutgoingMessages
from crossclaw.sessions.retrying import Retries
from crossclaw.sessions.tracing import Tracing


def gateway_services(resources: Resources, run_services: RunServices) -> GatewayServices:
    channels = run_services.channels
    return GatewayServices(
        about=_about(resources),
        pairings=Pairings(
            resources.ledger,
            telling(resources.inputs.clients),
            resources.clock,
            resources.ids,
            resources.credentials,
        ),
        prompting=_prompting(resources),
        webhooks=PassingWebhooks(
            channels.find_webhook, channels.find_webhook_role, resources.neighbours
        ),
    )


def _prompting(resources: Resources) -> Prompting:
    models = settings.models_of(resources)
    return Prompting(
        resources.config,
        settings.prompts(resources).system,
        lambda each: models(each).primary,
    )


def _about(resources: Resources) -> About:
    return About(
        resources.context,
        resources.inputs.environ,
        resources.models,
        resources.accounts,
        resources.inputs.presence,
        StoreGrowth(
            resources.paths.ledger_path, Disk(inline=resources.inputs.inline), resources.clock
        ),
    )


def talking(
    resources: Resources, run_services: RunServices, session_services: SessionServices
) -> list[object]:
    config, ledger, clock, ids = resources.config, resources.ledger, resources.clock, resources.ids
    run_store, resolver = run_services.run_store, run_services.resolver
    intake, stopping = session_services.intake, session_services.stopping
    chat = Chat(intake, resources.context, resolver, run_store, stopping, session_services.changing)
    log_path = resources.paths.log_path(config.logging)
    outgoing = OutgoingMessages(
        resources.context,
        resolver,
        resources.accounts,
        run_services.outbox.wake,
        resources.workspace_of,
    )
    return [
        chat,
        Clients(config, chat, session_services.sends, log_path, ids),
        AgentRuns(config, intake, ledger, run_store, resources.models, clock),
        Sending(outgoing),
    ]


def of_sessions(
    resources: Resources, run_services: RunServices, session_services: SessionServices
) -> list[object]:
    config, ledger, clock = resources.config, resources.ledger, resources.clock
    resolver, changing = run_services.resolver, session_services.changing
    compacting = Compacting(
        ledger, run_services.run_store, run_services.feed, session_services.intake
    )
    return [
        SessionMethods(
            resources.context,
            resolver,
            changing,
            resources.paths.ledger_path,
            session_services.budgets,
            resources.models,
        ),
        Subscribing(resolver),
        Forking(resources.context, resolver),
        MemoryMethods(resolver, compacting),
        session_services.spawns,
        Upkeep(
            resources.context,
            resolver,
            session_services.stopping,
            session_services.archive,
            changing,
        ),
        Agreeing(ledger, clock),
        Explaining(config, ledger, resolver, resources.accounts),
        *_for_onlookers(
            resources,
            resolver,
            lambda key: session_services.guests.is_here(key) or resources.neighbours.has_guest(key),
        ),
    ]


def attention(
    resources: Resources,
    run_services: RunServices,
    session_services: SessionServices,
    sources: AttentionSources,
) -> AttentionMethods:
    return AttentionMethods(
        resources.ledger,
        run_services.resolver,
        Retries(resources.ledger, run_services.resolver, session_services.intake),
        resources.clock,
        run_services.outbox.look_again,
        sources.sources(),
    )


def _for_onlookers(
    resources: Resources, resolver: Resolver, guest_is_here: Callable[[SessionKey], bool]
) -> list[object]:
    """The methods for the control page that OpenClaw does not have."""
    ledger, clock = resources.ledger, resources.clock
    table = SessionTable(
        ledger.monitoring,
        resolver,
        clock,
        resources.models.in_use,
        resources.is_gone,
        guest_is_here,
    )
    return [
        table,
        Search(ledger, resolver),
        Map(ledger, resolver, table, clock),
        FigureMethods(ledger, resolver, clock),
        RehearsalMethods(resolver, resources.paths.state_dir, resources.inputs.environ),
        Trace(ledger, resolver),
        TraceMethods(Tracing(ledger, clock), resolver),
    ]


def of_the_rest(
    resources: Resources,
    run_services: RunServices,
    session_services: SessionServices,
    schedule: Schedule,
    pairings: Pairings,
) -> list[object]:
    """The methods for settings, jobs, hooks, nodes and devices."""
    config, clock, clients = resources.config, resources.clock, resources.inputs.clients
    inputs = resources.inputs
    shared = resources.shared_config
    changes = ConfigChanges(
        resources.loaded,
        inputs.environ,
        inputs.take_rules,
        None if shared is None else shared.publish,
    )
    return [
        Settings(changes, clock),
        AgentMethods(config, changes, resources.paths.workspace, inputs.environ),
        ModelTrials(
            resources.providers,
            partial(trial_provider, config, resources.inputs.environ),
            _key_keeper(resources),
            changes,
            clock,
        ),
        Renderer(),
        ChannelMethods(run_services.channels, clock, resources.neighbours),
        ChannelPairingMethods(session_services.channel_pairing),
        DeliveryMethods(resources.ledger, run_services.resolver),
        CronMethods(
            config,
            schedule.jobs,
            resources.paths.ledger_path,
            _credential_names(resources, pairings),
        ),
        Waking(
            config,
            resources.ledger,
            schedule.notices,
            schedule.heartbeats,
            clock,
            resources.neighbours,
        ),
        schedule.hooks,
        _nodes(resources, run_services, session_services, schedule),
        Devices(
            pairings,
            clients,
            session_services.revoking.end_runs,
            clock,
            resources.neighbours,
        ),
        GuestMethods(session_services.guest_names, session_services.revoking.end_runs),
        ApprovalMethods(run_services.approvals),
        LeavingMethods(resources.inputs.leave, lambda: len(run_services.lanes.under_way)),
        _gateways(resources, run_services),
    ]


def _nodes(
    resources: Resources,
    run_services: RunServices,
    session_services: SessionServices,
    schedule: Schedule,
) -> Nodes:
    calls = NodeCalls(
        resources.config, resources.ids, resources.inputs.clients, resources.neighbours
    )
    events = NodeEvents(
        resources.context,
        run_services.resolver,
        session_services.intake,
        schedule.notices,
        calls,
    )
    return Nodes(calls, events, resources.clock)


def _key_keeper(resources: Resources) -> KeyKeeper:
    shared = resources.shared_keys
    renew = renewing(resources)
    if shared is None:
        return LocalKeyStore(resources.paths.state_dir, renew)
    return SharedKeyStore(resources.paths.state_dir, renew, shared)


def _gateways(resources: Resources, run_services: RunServices) -> GatewayMethods:
    claiming, ledger = run_services.claiming, resources.ledger
    return GatewayMethods(
        ledger.gateways, ledger.owner, lambda: claiming.why_not if claiming else None
    )


def _credential_names(resources: Resources, pairings: Pairings) -> NameCredential:
    """Who made something, for people."""

    def name(maker: CredentialRef) -> tuple[str, bool]:
        known = {each.credential_id: each for each in pairings.devices}
        found = known.get(maker.credential_id)
        said = found.particulars.display_name or found.particulars.client_id if found else None
        kind, _, rest = maker.credential_id.partition(":")
        words = {"gateway": "the gateway's token", "hooks": "the hooks' token"}
        shown = words.get(kind) or f"{kind} {said or rest.rpartition(':')[2][:12]}"
        return shown, resources.credentials.stands([maker])

    return name
