"""The Python client of a gateway: `connect` for ordinary programs, `connect_async` for async ones.

    from crossclaw.client import connect

    with connect() as client:
        print(client.send("Good day").text)

docs/client.md shows the rest. Importing this is cheap: a name brings its module when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossclaw.client.asynchronous import AsyncGatewayClient, connect_async
    from crossclaw.client.blocking import GatewayClient, connect
    from crossclaw.client.errors import (
        BadAddress,
        CallRefused,
        ClientError,
        GatewayDown,
        NotLetIn,
        ReplyFailed,
        WaitTimeout,
    )
    from crossclaw.client.peer import Event
    from crossclaw.client.replies import (
        CompactionStep,
        MessageAccepted,
        ModelTrouble,
        ReplyText,
        RunReply,
        StreamPiece,
        ToolStep,
    )
    from crossclaw.client.rows import (
        EntryCursor,
        HistoryMessage,
        SessionEntry,
        SessionInfo,
        SpawnedChild,
    )

__all__ = [
    "AsyncGatewayClient",
    "BadAddress",
    "CallRefused",
    "ClientError",
    "CompactionStep",
    "EntryCursor",
    "Event",
    "GatewayClient",
    "GatewayDown",
    "HistoryMessage",
    "MessageAccepted",
    "ModelTrouble",
    "NotLetIn",
    "ReplyFailed",
    "ReplyText",
    "RunReply",
    "SessionEntry",
    "SessionInfo",
    "SpawnedChild",
    "StreamPiece",
    "ToolStep",
    "WaitTimeout",
    "connect",
    "connect_async",
]

_WHERE = {
    "asynchronous": ("AsyncGatewayClient", "connect_async"),
    "blocking": ("GatewayClient", "connect"),
    "errors": (
        "BadAddress", "CallRefused", "ClientError", "GatewayDown", "NotLetIn", "ReplyFailed",
        "WaitTimeout",
    ),
    "peer": ("Event",),
    "replies": (
        "CompactionStep", "ModelTrouble", "StreamPiece", "ReplyText", "MessageAccepted", "RunReply", "ToolStep",
    ),
    "rows": ("EntryCursor", "HistoryMessage", "SessionEntry", "SessionInfo", "SpawnedChild"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"crossclaw.client.{module}"), name)
    raise AttributeError(f"crossclaw.client has no {name!r}")
