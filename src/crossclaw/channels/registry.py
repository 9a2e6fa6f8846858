"""The registry: which channels there are, and how an account of one is opened.

A channel is a folder beside this file with a `manifest.py`, or a package that names its manifest under the entry
point group `crossclaw.channels`.
"""

import inspect
from importlib import import_module

import anyio.to_thread

from crossclaw.channels.contract import AccountFacts, ChannelAccount, ChannelHost
from crossclaw.channels.http import HttpClients
from crossclaw.channels.manifest import ChannelManifest
from crossclaw.config import manifests
from crossclaw.config.channels import ChannelSettings
from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import AccountBroken


def find_manifest(name: str) -> ChannelManifest | None:
    """The manifest of a channel, by its name or an alias; imports that and nothing else."""
    found = manifests.find(name)
    return found if isinstance(found, ChannelManifest) else None


def list_manifests() -> list[ChannelManifest]:
    found = [find_manifest(name) for name in manifests.known_names()]
    return [each for each in found if each is not None]


async def identify_account(manifest: ChannelManifest, settings: ChannelSettings) -> AccountFacts:
    """Asks the platform who the account is, without a gateway: for setting it up."""
    assert manifest.identify is not None, "only channels that can be asked are offered"
    module_name, _, function = manifest.identify.partition(":")
    http = HttpClients()
    try:
        facts: AccountFacts = await getattr(import_module(module_name), function)(settings, http)
        return facts
    finally:
        await http.close()


async def open_account(
    manifest: ChannelManifest, settings: ChannelSettings, host: ChannelHost, *, inline: bool = False
) -> ChannelAccount:
    """Opens an account. Its library is imported now, in a thread, so that others go on meanwhile."""
    from crossclaw.display.dialects import DIALECTS  # noqa: PLC0415  nobody needs it to read the config

    if manifest.traits.dialect not in (None, *DIALECTS):
        raise AccountBroken(
            f"{manifest.title} names the dialect {manifest.traits.dialect!r}; there are {', '.join(DIALECTS)}"
        )
    module_name, _, function = manifest.open.partition(":")
    try:
        if inline:
            module = import_module(module_name)
        else:
            module = await anyio.to_thread.run_sync(import_module, module_name)
    except ImportError as error:
        raise AccountBroken(
            f"{manifest.title} needs the Python package {error.name}, which is not installed: "
            f"{how_to_install_there('channels')}"
        ) from error
    opened = getattr(module, function)(settings, host)
    account: ChannelAccount = await opened if inspect.isawaitable(opened) else opened
    return account


def channel_name(channel: str) -> str:
    """The channel's own name for a name or an alias."""
    manifest = find_manifest(channel)
    return manifest.name if manifest else channel


def named_address(
    channel: str, to: str, account_id: str | None = None, thread_id: str | None = None
) -> Address:
    """An address from the platform's own spelling: `-100:topic:7` names a thread too."""
    manifest = find_manifest(channel)
    target = manifest.read_target(to) if manifest else None
    if target is not None and target.thread_id:
        to, thread_id = target.to, thread_id or target.thread_id
    return Address(channel_name(channel), to, account_id, thread_id, named=True)
