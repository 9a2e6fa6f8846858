"""The owner's agreement to tools of MCP servers: a tool that describes itself otherwise than when it was first
seen, or that the server did not have then, is held until the owner agrees.

Its description is read by every model as if it were the owner's; a server that was harmless when it was set up
may change it later, or bring another tool.
"""

import logging
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.ledger.agreed import SeeTools
from crossclaw.ledger.contract import Ledger
from crossclaw.tools.mcp_tool import McpTool

log = logging.getLogger(__name__)


class AgreedTools:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def see(self, server: str, tools: Sequence[McpTool]) -> None:
        """Compares a server's tools with those agreed to; call it whenever a server has listed them."""
        listed = {tool.name: (_digest(tool), tool.description) for tool in tools}
        held = await self._ledger.do(SeeTools(server=server, tools=listed, at=self._clock.now_ms()))
        for name in held:
            log.warning(
                "the MCP tool %s is new or says something else of itself than before; it is held until you agree: "
                "crossclaw mcp held",
                name,
            )

    async def held(self) -> frozenset[str]:
        return frozenset(each.tool for each in await self._ledger.list_held_tools())


def _digest(tool: McpTool) -> str:
    return sha256(msgspec.json.encode(tool.spec, order="deterministic")).hexdigest()
