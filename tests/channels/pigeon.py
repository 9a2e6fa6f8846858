"""Pigeon post: a chat platform in memory that the config can name, as a package of somebody else would bring it.

`installed(folder)` puts its metadata where pip would. `LOFT` is the platform: what its pigeons carried, and what
goes wrong next.
"""

import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.abc

from crossclaw.channels.contract import (
    AccountFacts,
    ChannelAccount,
    ChannelHost,
    Piece,
    WebhookAnswer,
    WebhookRequest,
)
from crossclaw.channels.manifest import ChannelManifest, Target, Traits
from crossclaw.config import manifests
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.secret import Secret


class PigeonSettings(ChannelSettings, frozen=True):
    bot_token: Secret | None = None
    """The ring of the pigeon."""
    token_file: str | None = None
    """A file with it."""
    alternatives = (("botToken", "tokenFile"),)

    @property
    def is_set_up(self) -> bool:
        return bool(self.bot_token or self.token_file)

    @property
    def what_is_missing(self) -> str:
        return "botToken, the ring of the pigeon"


class Loft:
    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.sent: list[tuple[str, str, str]] = []
        """Account, chat, text."""
        self.faults: dict[str, deque[Exception]] = {}
        """Of each account, raised by its next attempts to serve."""
        self.accounts: dict[str, Pigeon] = {}
        self.rings: dict[str, str] = {}
        """Of an account that has the same ring as another."""


LOFT = Loft()


class Pigeon(ChannelAccount):
    def __init__(self, settings: PigeonSettings, host: ChannelHost) -> None:
        self.settings, self.host, self.name = settings, host, host.account_id

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        LOFT.opened.append(self.name)
        LOFT.accounts[self.name] = self
        if faults := LOFT.faults.get(self.name):
            raise faults.popleft()
        await host.connected(await self.probe())
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            LOFT.closed.append(self.name)

    async def send(self, piece: Piece) -> str | None:
        LOFT.sent.append((self.name, piece.address.to, piece.formatted))
        return str(len(LOFT.sent))

    async def probe(self) -> AccountFacts:
        return AccountFacts(id=LOFT.rings.get(self.name, f"ring-{self.name}"), name=self.name)

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        if request.headers.get("x-ring") != "right":
            return WebhookAnswer(status=401)
        return WebhookAnswer(body=request.method.encode() + b" " + request.body)


MANIFEST = ChannelManifest(
    name="pigeon",
    title="Pigeon",
    settings=PigeonSettings,
    open="tests.channels.pigeon:Pigeon",
    environ={"PIGEON_TOKEN": "botToken"},
    traits=Traits(webhook="/pigeon-webhook", id_label="ring"),
    read_target=Target,
    normalize_sender=lambda entry: entry if entry.isdigit() else None,
)


@contextmanager
def installed(folder: Path) -> Generator[Loft]:
    info = folder / "pigeon_post-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[crossclaw.channels]\n"
        "pigeon = tests.channels.pigeon:MANIFEST\ndove = tests.channels.pigeon:MANIFEST\n"
    )
    sys.path.insert(0, str(folder))
    manifests.foreign.cache_clear()
    LOFT.__init__()  # type: ignore[misc]
    try:
        yield LOFT
    finally:
        sys.path.remove(str(folder))
        manifests.foreign.cache_clear()
