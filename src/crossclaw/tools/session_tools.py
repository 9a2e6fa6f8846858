"""The session tools: list sessions, read them, send into them, spawn sub-agents."""

from typing import Any

from crossclaw.domain.tools import BUILT_IN, SESSION_TOOLS
from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Method
from crossclaw.sessions.reading import (
    HistoryParams,
    HistoryResult,
    SessionReading,
    SessionsListParams,
    SessionsListResult,
)
from crossclaw.sessions.send import Sends, SendToolParams, SendToolResult
from crossclaw.sessions.spawn import SpawnParams, SpawnResult, Spawns
from crossclaw.sessions.status import (
    AgentsParams,
    AgentsResult,
    SessionStatus,
    SessionStatusParams,
    SessionStatusResult,
)
from crossclaw.tools.contract import Tool
from crossclaw.tools.door_tool import door_tool, tool_method
from crossclaw.tools.texts import TEXTS


def session_methods(
    reading: SessionReading, sends: Sends, spawns: Spawns, standing: SessionStatus
) -> list[Method[Any]]:
    return [
        tool_method(
            "sessions_list",
            SessionsListParams,
            SessionsListResult,
            "read",
            reading.list,
            TEXTS["sessions_list"].description,
        ),
        tool_method(
            "sessions_history",
            HistoryParams,
            HistoryResult,
            "read",
            reading.history,
            TEXTS["sessions_history"].description,
        ),
        tool_method(
            "sessions_send",
            SendToolParams,
            SendToolResult,
            "run",
            sends.send,
            TEXTS["sessions_send"].description,
        ),
        tool_method(
            "sessions_spawn",
            SpawnParams,
            SpawnResult,
            "run",
            spawns.spawn,
            TEXTS["sessions_spawn"].description,
        ),
        tool_method(
            "agents_list",
            AgentsParams,
            AgentsResult,
            "read",
            standing.agents,
            TEXTS["agents_list"].description,
        ),
        tool_method(
            "session_status",
            SessionStatusParams,
            SessionStatusResult,
            "change",
            standing.status,
            TEXTS["session_status"].description,
        ),
    ]


def session_tools(door: Door) -> list[Tool[Any]]:
    return [door_tool(door, name) for name in BUILT_IN if name in SESSION_TOOLS]
