"""Tools of MCP servers, as the owner has agreed to them: operations of their own."""

import msgspec

from crossclaw.ledger.operations import Op


class HeldTool(msgspec.Struct, frozen=True):
    """A tool of an MCP server that says something else of itself than what was agreed to, or that the server
    did not have when it was first seen."""

    server: str
    tool: str
    words: str
    new_words: str
    digest: str
    """Of what it says now."""
    seen_at: int
    is_new: bool = False
    """Nothing of it was ever agreed to."""


class SeeTools(Op[list[str]], frozen=True):
    """A server has these tools now, each with a digest of all that it says and its description. The tools that a
    server has when it is first seen are agreed to; answers those that have changed or come since."""

    server: str
    tools: dict[str, tuple[str, str]]
    at: int


class AgreeTool(Op[bool], frozen=True):
    """What a tool says now is agreed to; False when it says something else by now, or is not held."""

    server: str
    tool: str
    digest: str
    at: int
