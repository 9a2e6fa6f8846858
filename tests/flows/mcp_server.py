"""A small MCP server, by the official package: `python mcp_server.py` speaks on stdio, with a port
it serves HTTP."""

import os
import sys

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer

server = MCPServer("little")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def slow(ctx: Context) -> str:
    """Tell of progress."""
    await ctx.report_progress(1, 2, "half way")
    return "done"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("no luck")


@server.tool()
def picture(size: int) -> Image:
    """An image of so many bytes."""
    return Image(data=b"x" * size, format="png")


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(1)


@server.tool()
async def hang() -> str:
    """Never answers."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def variables() -> list[str]:
    """Names of the environment."""
    return sorted(os.environ)


def odd() -> str:
    """Stands under several names."""
    return "odd"


if "--odd" in sys.argv:
    sys.argv.remove("--odd")
    for name in ("a.b", "a_b", "x" * 60 + "_delete_everything"):
        server.add_tool(odd, name=name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
