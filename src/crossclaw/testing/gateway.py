"""open_gateway: the whole gateway in a folder of your choice, in virtual time, with a scripted model."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from crossclaw import app
from crossclaw.channels.contract import GivenChannel
from crossclaw.channels.http import HttpClients
from crossclaw.config import Config, Loaded, Paths
from crossclaw.domain.clock import Clock
from crossclaw.providers.contract import Provider
from crossclaw.runs.sweep import Fire
from crossclaw.testing.time import VirtualClock
from crossclaw.tools.contract import Tool


def config_for(provider: Provider, config: Config | None = None) -> Config:
    """The config with `provider` as everybody's model."""
    base = config or Config()
    defaults = msgspec.structs.replace(base.agents.defaults, model=f"{provider.name}/test")
    agents = msgspec.structs.replace(base.agents, defaults=defaults)
    return msgspec.structs.replace(base, agents=agents)


@asynccontextmanager
async def open_gateway(
    folder: Path,
    provider: Provider,
    *,
    config: Config | None = None,
    channels: Sequence[GivenChannel] = (),
    tools: Sequence[Tool[Any]] = (),
    timers: dict[str, Fire] | None = None,
    clock: Clock | None = None,
    inline: bool = True,
    environ: Mapping[str, str] | None = None,
    http: Callable[[], HttpClients] = HttpClients,
    loaded: Loaded | None = None,
) -> AsyncGenerator[app.Gateway]:
    """Opens a gateway. With `inline` (virtual time) nothing runs in threads; without, the real writer is
    used. `http`: how chat accounts reach their platforms; a fake may take the place of the network."""
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    outside = app.GatewayInputs(
        environ=environ or {},
        clock=clock or VirtualClock(),
        providers={provider.name: provider},
        channels=tuple(channels),
        tools=tuple(tools),
        timers=timers,
        inline=inline,
        http=http,
        loaded=loaded,
    )
    async with app.open_gateway(config_for(provider, config), paths, outside) as gateway:
        yield gateway
