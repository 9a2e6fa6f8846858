"""Operations on tools of MCP servers that the owner has agreed to."""

import msgspec

from crossclaw.ledger.operations import Op


class HeldTool(msgspec.Struct, frozen=True):
    """A tool of an MCP server whose description differs from what was agreed to, or that the server
    did not have when it was first seen."""

    server: str
    tool: str
    words: str
    new_words: str
    digest: str
    """The digest of its description now."""
    is_new: bool = False
    """Whether no version of it was ever agreed to."""


class SeeTools(Op[list[str]], frozen=True):
    """Store the tools that a server has now, each with a digest of its whole description and the
    text. The tools that a server has when it is first seen are agreed to; the result is those that
    have changed or come since."""

    server: str
    tools: dict[str, tuple[str, str]]
    at: int


class AgreeTool(Op[bool], frozen=True):
    """Agree to a tool's description; False if it has changed again, or is not held."""

    server: str
    tool: str
    digest: str
    at: int
