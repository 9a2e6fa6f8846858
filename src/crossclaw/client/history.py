"""The messages of a session, read page by page."""

from typing import Any

from crossclaw.client.peer import GatewayPeer

PAGE = 1000  # messages; what the gateway gives at once


async def read_history(
    peer: GatewayPeer, key: str, limit: int, *, before: int | None = None, timeout_s: float = 30
) -> dict[str, Any]:
    """Reads messages from the newest backwards, until there are as many as wanted: the last answer of
    `chat.history`, with the messages of all of them, oldest first."""
    messages: list[Any] = []
    answer: dict[str, Any] = {}
    while len(messages) < limit:
        params = {"sessionKey": key, "limit": min(limit - len(messages), PAGE)}
        params |= {"before": before} if before else {}
        answer = await peer.call("chat.history", params, timeout_s=timeout_s, repeat=True)
        messages = [*answer["messages"], *messages]
        older = answer.get("older", 0)
        if not older or not answer["messages"]:
            break
        before = older + 1
    return answer | {"messages": messages}
