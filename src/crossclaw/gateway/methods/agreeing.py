"""mcp.held, mcp.agree: tools of MCP servers that changed, or came, after the server was first seen. Ours: OpenClaw has none."""

from crossclaw.domain.aliases import NameText
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import NotFound
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.ledger.agreed import AgreeTool
from crossclaw.ledger.contract import Ledger


class Held(Result, frozen=True):
    server: str
    tool: str
    before: str
    now: str
    digest: str
    """The digest to pass to `mcp.agree`, so that what is agreed to is what was looked at."""
    is_new: bool
    """Whether the server did not have the tool when it was first seen."""


class HeldResult(Result, frozen=True):
    tools: list[Held]


class AgreeParams(Params, frozen=True):
    tool: NameText
    digest: NameText


class AgreeResult(Result, frozen=True):
    ok: bool
    tool: str


class Agreeing:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    @method(
        "mcp.held",
        "operator.read",
        "read",
        "Ours: tools of MCP servers that changed or came after the server was first seen, and are held.",
    )
    async def held(self, caller: Caller, params: NoParams) -> HeldResult:
        found = await self._ledger.list_held_tools()
        return HeldResult(
            tools=[
                Held(
                    server=t.server,
                    tool=t.tool,
                    before=t.words,
                    now=t.new_words,
                    digest=t.digest,
                    is_new=t.is_new,
                )
                for t in found
            ]
        )

    @method(
        "mcp.agree", "operator.admin", "change", "Ours: let agents use a held tool as it is now."
    )
    async def agree(self, caller: Caller, params: AgreeParams) -> AgreeResult:
        held = {each.tool: each for each in await self._ledger.list_held_tools()}
        if (found := held.get(params.tool)) is not None:
            agree = AgreeTool(
                server=found.server,
                tool=found.tool,
                digest=params.digest,
                at=self._clock.now_ms(),
            )
            if await self._ledger.do(agree):
                return AgreeResult(ok=True, tool=found.tool)
        raise NotFound(f"no tool {params.tool} is held with this digest; mcp.held lists them")
