"""The parts of a gateway: resources, the services of runs and of sessions, and the whole."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.app.shared_config import SharedConfig
from crossclaw.app.shared_keys import SharedModelKeys
from crossclaw.channels.accounts import LiveAccounts
from crossclaw.channels.contract import GivenChannel
from crossclaw.channels.hosting import HostServices
from crossclaw.channels.http import HttpClients
from crossclaw.channels.supervisor import ChannelSupervisor
from crossclaw.config import Loaded, Paths
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.config.channels import AccountConfig
from crossclaw.config.current import CurrentConfig
from crossclaw.delivery.outbox import Outbox
from crossclaw.delivery.signals import ChatSignals
from crossclaw.domain.clock import Clock, SystemClock
from crossclaw.domain.ids import Ids, RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.door.dispatch import Door
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.client import Client
from crossclaw.gateway.http.webhooks import PassingWebhooks
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.prompting import Prompting
from crossclaw.gateway.pairing import Pairings
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.answering import is_gone
from crossclaw.policy.credentials import Credentials
from crossclaw.policy.models import ModelRules
from crossclaw.providers.contract import Provider
from crossclaw.providers.registry import Providers
from crossclaw.runs.approvals import Approvals
from crossclaw.runs.claiming import Claiming
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.feed import Feed
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.lease import GatewayLease
from crossclaw.runs.neighbours import Neighbours
from crossclaw.runs.roles import Roles
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.sweep import Fire, Sweep
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
from crossclaw.sessions.channel_pairing import ChannelPairing
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.sessions.commands import Commands
from crossclaw.sessions.ending import Endings
from crossclaw.sessions.guest_names import GuestNames
from crossclaw.sessions.guests import Guests
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.reading import SessionReading
from crossclaw.sessions.retention import Retention
from crossclaw.sessions.revoking import Revoking
from crossclaw.sessions.run_builder import RunBuilder
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import Spawns
from crossclaw.sessions.status import SessionStatus
from crossclaw.sessions.stopping import Stopping
from crossclaw.tools.contract import Tool
from crossclaw.tools.mcp_servers import McpServers
from crossclaw.tools.toolset import Toolsets
from crossclaw.transcripts.exporter import Exporter


class GatewayInputs(msgspec.Struct, frozen=True):
    """What the gateway is given from outside: time, ids, environment, test doubles."""

    environ: Mapping[str, str]
    clock: Clock = msgspec.field(default_factory=SystemClock)
    ids: Ids = msgspec.field(default_factory=RandomIds)
    providers: Mapping[str, Provider] | None = None
    channels: tuple[GivenChannel, ...] = ()
    """Chat accounts in addition to those in the config."""
    http: Callable[[], HttpClients] = HttpClients
    """How chat accounts reach their platforms."""
    tools: tuple[Tool[Any], ...] = ()
    timers: Mapping[str, Fire] | None = None
    loaded: Loaded | None = None
    """Where the config came from, for methods that report it."""
    presence: Callable[[], list[dict[str, Any]]] = list
    """Who is connected to this gateway."""
    clients: Callable[[], list[Client]] = list
    """The connections of the clients."""
    take_rules: Callable[[Loaded], Awaitable[str | None]] | None = None
    """Called with a config that was just written. When it returns, its secrets and rules are in
    force, or it says why not."""
    leave: Callable[[float], None] | None = None
    """Ends the gateway; runs under way have so many seconds first."""
    began_ms: int | None = None
    """When the program started. A changed config reopens the gateway, which does not make it
    younger."""
    inline: bool = False
    """Whether to work without threads, for virtual time."""
    keeps_time: bool = True
    """Whether jobs run here. A gateway opened for a single call leaves them to the one that
    serves."""


class Resources(msgspec.Struct, frozen=True, dict=True):
    """The resources that the services are built on."""

    config: CurrentConfig
    paths: Paths
    inputs: GatewayInputs
    ledger: Ledger
    providers: Providers
    credentials: Credentials = msgspec.field(default_factory=Credentials)
    shared_config: SharedConfig | None = None
    """The shared config, if several gateways share the ledger."""
    shared_keys: SharedModelKeys | None = None

    @property
    def clock(self) -> Clock:
        return self.inputs.clock

    @property
    def ids(self) -> Ids:
        return self.inputs.ids

    @cached_property
    def context(self) -> ServiceContext:
        return ServiceContext(
            self.config, self.ledger, Feed(), self.clock, self.ids, self.credentials
        )

    @cached_property
    def neighbours(self) -> Neighbours:
        """The other gateways on the same ledger."""
        return Neighbours()

    @property
    def loaded(self) -> Loaded:
        return self.inputs.loaded or Loaded(self.config, self.paths.config_path, False, {}, (), ())

    @cached_property
    def accounts(self) -> LiveAccounts:
        """The chat accounts; as a collection, the names of the channels."""
        accounts = LiveAccounts()
        for given in self.inputs.channels:
            accounts.expect((given.name, given.account_id))
        return accounts

    def wanted_accounts(self) -> list[AccountConfig]:
        """The accounts that the config in force names."""
        return accounts_in(self.config.channels, self.config.environment(self.inputs.environ))

    @cached_property
    def models(self) -> ModelChoices:
        rules = ModelRules(self.config, self.inputs.environ)
        return ModelChoices(rules, self.providers.get, self.providers.key_fault)

    def is_gone(self, key: SessionKey) -> bool:
        return is_gone(self.config.agents, key)

    def workspace_of(self, agent_id: str) -> Path:
        return self.paths.workspace(agent_id, self.config.agents)


class RunServices(msgspec.Struct, frozen=True):
    """The services of runs: store, order, deliveries."""

    feed: Feed
    run_store: RunStore
    slots: Slots
    lanes: Lanes
    waits: Waits
    outbox: Outbox
    signals: ChatSignals
    sweep: Sweep
    exporter: Exporter
    resolver: Resolver
    approvals: Approvals
    channels: ChannelSupervisor
    claiming: Claiming | None
    lease: GatewayLease | None
    roles: Roles


class SessionServices(msgspec.Struct, frozen=True):
    """The services of sessions: everything that can be done to one."""

    stopping: Stopping
    revoking: Revoking
    changing: Changing
    archive: Archive
    sends: Sends
    spawns: Spawns
    budgets: Budgets
    session_status: SessionStatus
    reading: SessionReading
    endings: Endings
    builder: RunBuilder
    commands: Commands
    intake: Intake
    guests: Guests
    guest_names: GuestNames
    channel_pairing: ChannelPairing
    hosting: HostServices
    """What chat accounts are given."""


class Schedule(msgspec.Struct, frozen=True):
    notices: Notices
    heartbeats: Heartbeats
    job_runs: JobRuns
    clockwork: Clockwork
    jobs: Jobs
    hooks: Hooks


class GatewayServices(msgspec.Struct, frozen=True):
    """The services of the server beside its methods: what it says about itself, pairing of devices, the prompts that
    clients may read, and webhooks of chat platforms."""

    about: About
    pairings: Pairings
    prompting: Prompting
    webhooks: PassingWebhooks


class Gateway(msgspec.Struct, frozen=True):
    context: ServiceContext
    config: CurrentConfig
    credentials: Credentials
    revoking: Revoking
    ledger: Ledger
    run_store: RunStore
    lanes: Lanes
    waits: Waits
    slots: Slots
    commands: Commands
    intake: Intake
    endings: Endings
    archive: Archive
    retention: Retention
    feed: Feed
    sweep: Sweep
    outbox: Outbox
    signals: ChatSignals
    channels: ChannelSupervisor
    hosting: HostServices
    """What chat accounts are given."""
    webhooks: PassingWebhooks
    exporter: Exporter
    resolver: Resolver
    door: Door
    about: About
    prompting: Prompting
    places: Places
    servers: McpServers
    toolsets: Toolsets
    approvals: Approvals
    schedule: Schedule
    guests: Guests
    guest_names: GuestNames
    pairings: Pairings
    lease: GatewayLease | None
    """The lease of this gateway, if several share the ledger."""
    neighbours: Neighbours
    claiming: Claiming | None
    shared_config: SharedConfig | None
    roles: Roles
