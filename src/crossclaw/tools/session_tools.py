"""The session tools: list sessions, read them, send into them, spawn sub-agents."""

from typing import Any

from crossclaw.domain.tools import BUILT_IN, SESSION_GROUPS
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Method, MethodEffect, MethodHandler
from crossclaw.sessions.reading import SessionReading
from crossclaw.sessions.send import Sends
from crossclaw.sessions.spawn import Spawns
from crossclaw.sessions.status import SessionStatus
from crossclaw.tools.contract import Tool
from crossclaw.tools.door_tool import door_tool, tool_method
from crossclaw.tools.texts import TEXTS


def session_methods(
    reading: SessionReading, sends: Sends, spawns: Spawns, status: SessionStatus
) -> list[Method[Any]]:
    handlers: list[tuple[str, MethodEffect, MethodHandler[Any]]] = [
        ("sessions_list", "read", reading.list),
        ("sessions_history", "read", reading.history),
        ("sessions_send", "run", sends.send),
        ("sessions_spawn", "run", spawns.spawn),
        ("agents_list", "read", status.agents),
        ("session_status", "change", status.status),
    ]
    return [
        tool_method(name, effect, handle, TEXTS[name].description)
        for name, effect, handle in handlers
    ]


def session_tools(door: Door) -> list[Tool[Any]]:
    return [
        door_tool(door, each.name) for each in BUILT_IN.values() if each.group in SESSION_GROUPS
    ]
