"""Tools: what a model may call. One file a tool; the contract beside them."""

__all__ = [
    "approving",
    "contract",
    "documents",
    "edit",
    "egress",
    "exec",
    "guests",
    "invoke",
    "mcp_agreed",
    "mcp_servers",
    "message",
    "picture_reader",
    "read",
    "readers",
    "session_tools",
    "toolset",
    "web_fetch",
    "write",
]
