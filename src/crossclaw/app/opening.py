"""Opening: builds the parts of a gateway, each after what it needs, and serves them until it
closes."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from crossclaw.agent.execute import RunExecutor
from crossclaw.app.building import build, build_agent
from crossclaw.app.config_proof import ConfigProof
from crossclaw.app.model_settings import make_providers
from crossclaw.app.parts import Gateway, GatewayInputs, Resources
from crossclaw.app.run_handler import AgentRunHandler
from crossclaw.app.shared_config import OwnFile, SharedConfig
from crossclaw.app.shared_keys import SharedModelKeys
from crossclaw.app.sharing import (
    OthersCredentials,
    join_gateways,
    leave_gateways,
    listen_to_others,
    name_of,
)
from crossclaw.config import Config, Loaded, Paths
from crossclaw.config.current import CurrentConfig
from crossclaw.config.ledger_key import find_ledger_key
from crossclaw.config.supported import refuse_unsupported
from crossclaw.config.token import gateway_token
from crossclaw.disk.guarding import guard
from crossclaw.domain.errors import CrossclawError, StoreDamaged
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import ASIDE
from crossclaw.runs.roles import CRON, TRANSCRIPTS, UPKEEP, Roles
from crossclaw.runs.sweep import Fire
from crossclaw.sessions.spawn_report import ARCHIVE, CLEANUP
from crossclaw.transcripts.exporter import Exporter

log = logging.getLogger(__name__)

LOAD_AFTER_S = 0.1  # by then it listens


@asynccontextmanager
async def open_gateway(
    config: Config, paths: Paths, inputs: GatewayInputs
) -> AsyncGenerator[Gateway]:
    """Builds the gateway in the order of the imports, then serves it. Here lower rooms are given
    the functions of higher ones: lanes, who executes a run and what follows from its end; channels,
    who receives."""
    refuse_unsupported(config)
    await _look_after_files(config, paths, inputs)
    async with AsyncExitStack() as closing:
        current = CurrentConfig.of(config)
        ledger = await _opened_ledger(config, paths, inputs, closing)
        shared, keys = await _join_gateways(ledger, config, paths, inputs, closing)
        providers = make_providers(current, paths, inputs, keys.found if keys else None)
        closing.push_async_callback(_shielded, providers.close)
        resources = Resources(
            current,
            paths,
            inputs,
            ledger,
            providers,
            shared_config=shared,
            shared_keys=keys,
        )
        gateway = build(resources)
        closing.push_async_callback(_shielded, gateway.exporter.close)
        async with anyio.create_task_group() as tasks:
            if gateway.lease is not None:
                tasks.start_soon(gateway.lease.renew, name="lease")
            failed = await _load(config, resources, gateway)
            if failed is None:
                await _serve_parts(tasks, resources, gateway, build_agent(resources, gateway))
                yield gateway
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed


async def _load(config: Config, resources: Resources, gateway: Gateway) -> Exception | None:
    """Loads what is kept in memory. Returns the error instead of raising it: whoever starts the
    gateway should read the reason, not that one of several tasks failed."""
    try:
        await gateway.places.prepare()
        await gateway.pairings.load()
        for each in await gateway.ledger.list_credentials():
            if each.kind == "door":
                resources.credentials.put(each.credential_id, each.epoch)
        await gateway.guest_names.load()
        await _bring_back_mains(config, gateway)
    except (CrossclawError, OSError) as error:
        return error
    return None


async def _serve_parts(
    tasks: TaskGroup, resources: Resources, gateway: Gateway, agent: RunExecutor
) -> None:
    """Starts the parts of a gateway. Control comes back up from here on: each is handed what was built after it."""
    inputs, roles, config = resources.inputs, gateway.roles, resources.config
    gateway.commands.begin(gateway.door.dispatch, gateway.door.allow)
    gateway.prompting.begin(gateway.toolsets.of)
    if gateway.claiming is not None:
        gateway.claiming.begin(gateway.guests.is_here)
    await _start_in_role(tasks, roles, TRANSCRIPTS, partial(_write_copies, gateway.exporter))
    await tasks.start(gateway.servers.serve)
    handler = AgentRunHandler(
        gateway.ledger, gateway.feed, agent, gateway.guests, gateway.endings, gateway.schedule
    )
    await tasks.start(gateway.lanes.serve, handler)
    await tasks.start(gateway.signals.serve)
    await tasks.start(gateway.outbox.serve)
    sweep = partial(gateway.sweep.serve, _timers(inputs, gateway))
    tasks.start_soon(_serve_in_role, roles, UPKEEP, sweep, name="sweep")
    if gateway.lease is not None:
        credentials = OthersCredentials(gateway)
        listen_to_others(gateway, gateway.lease, credentials)
        tasks.start_soon(gateway.lease.look_around, name="look at the other gateways")
        tasks.start_soon(credentials.serve, name="credentials of others")
    wanted = resources.wanted_accounts if inputs.keeps_time else None
    await tasks.start(gateway.channels.serve, gateway.hosting, wanted, inputs.channels)
    if inputs.keeps_time:
        tasks.start_soon(_serve_in_role, roles, UPKEEP, gateway.retention.serve, name="retention")
    if inputs.keeps_time and config.cron.enabled:
        await _start_in_role(tasks, roles, CRON, gateway.schedule.clockwork.serve)
    if inputs.keeps_time and not inputs.inline:
        tasks.start_soon(_load_for_models, resources, name="load what model calls need")


async def _load_for_models(resources: Resources) -> None:
    """Load what the first call to each agent's model needs. Begins when the gateway has started, for which people wait."""
    await anyio.sleep(LOAD_AFTER_S)
    config, environ = resources.config, resources.inputs.environ
    try:
        models = {config.model_for(each, environ).primary for each in config.agents.ids()}
        await resources.providers.load(sorted(models))
    except Exception as error:  # noqa: BLE001  the first message says what is missing; no start fails by it
        log.info("what model calls need is loaded with the first of them: %s", error)


async def _start_in_role(
    tasks: TaskGroup, roles: Roles, name: str, serve: Callable[..., Coroutine[Any, Any, None]]
) -> None:
    """Starts a service at once if no other gateway could have its role, otherwise as soon as this
    one gets it."""
    if roles.has(name):
        await tasks.start(serve)
    else:
        tasks.start_soon(_serve_in_role, roles, name, serve)


async def _serve_in_role(roles: Roles, name: str, serve: Callable[[], Awaitable[None]]) -> None:
    await roles.wait_for(name)
    await serve()


async def _write_copies(
    exporter: Exporter, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Transcripts for people: first what they lack."""
    exporter.begin()
    await exporter.repair()
    await exporter.serve(task_status=task_status)


async def _opened_ledger(
    config: Config, paths: Paths, inputs: GatewayInputs, closing: AsyncExitStack
) -> Ledger:
    ledger = open_ledger(
        paths.ledger_path,
        url=config.ledger.url_in(inputs.environ),
        inline=inputs.inline,
        shared=config.ledger.shared,
    )
    closing.push_async_callback(_shielded, ledger.close)
    return ledger


async def _join_gateways(
    ledger: Ledger, config: Config, paths: Paths, inputs: GatewayInputs, closing: AsyncExitStack
) -> tuple[SharedConfig | None, SharedModelKeys | None]:
    """Joins the gateways that share the ledger, with the config that they have in common; nothing
    if the ledger is not shared."""
    if ledger.gateways is None:
        return None, None
    key = await anyio.to_thread.run_sync(find_ledger_key, config, paths, inputs.environ)
    token = await anyio.to_thread.run_sync(gateway_token, config, paths, inputs.environ)
    nothing = Loaded(config, paths.config_path, False, {}, (), ())
    file = OwnFile(
        inputs.loaded or nothing,
        inputs.environ,
        paths.config_epoch_path,
        ConfigProof(token, key),
        key,
        follows=inputs.loaded is not None and inputs.loaded.exists,
        take_rules=inputs.take_rules,
    )
    shared = SharedConfig(ledger.gateways, ledger.owner, name_of(config, paths), file)
    await join_gateways(ledger.gateways, config, paths, shared.digest)
    closing.push_async_callback(leave_gateways, ledger.gateways)
    await shared.catch_up()
    keys = SharedModelKeys(ledger.gateways.settings, key)
    await keys.look()
    return shared, keys


async def _look_after_files(config: Config, paths: Paths, inputs: GatewayInputs) -> None:
    """Checks who can write the files that the gateway relies on, before any is used: whoever can
    would be its owner."""
    files = inputs.loaded.files if inputs.loaded else ()
    store = [Path(f"{paths.ledger_path}{end}") for end in ("", "-wal", "-shm")]
    believed = [paths.state_dir, paths.token_path.parent, paths.token_path, *store]
    if config.ledger.key_file:
        believed.append(paths.resolve(config.ledger.key_file))
    tls = paths.certificate_dir
    believed += [tls.parent, tls, tls / "gateway-key.pem", tls / "gateway-cert.pem"]
    look = partial(
        guard, [*believed, paths.config_path, *files], trust_group=config.gateway.trust_group
    )
    if inputs.inline:
        look()
    else:
        await anyio.to_thread.run_sync(look)


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    """Closes something even while the gateway is being cancelled."""
    with anyio.CancelScope(shield=True):
        await close()


async def _bring_back_mains(config: Config, gateway: Gateway) -> None:
    """Unarchives the agents' main sessions. One may have been archived while its agent was out of
    the config; now there is an agent to answer."""
    for key in dict.fromkeys(map(config.main_key, config.agents.ids())):
        try:
            session = await gateway.ledger.find_session(key)
        except StoreDamaged as error:  # of one session; the others are there
            log.error("session %s cannot be read: %s", key, error)
            continue
        if session is not None and session.archived_at is not None:
            await gateway.archive.bring_back(key)


def _timers(inputs: GatewayInputs, gateway: Gateway) -> dict[str, Fire]:
    """What to do when a timer is due, by its kind."""
    return {
        ARCHIVE: gateway.archive.archive_due,
        CLEANUP: gateway.archive.clean_up,
        ASIDE: gateway.archive.set_aside,
        **(inputs.timers or {}),
    }
