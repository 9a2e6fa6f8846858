"""An MCP server that says too much, by hand: `python hostile_mcp_server.py <state file>`. The file says which
description its tool has, and which tools there are, so that both can change between two starts."""

import json
import sys
from pathlib import Path

state = Path(sys.argv[1])


def answer(method: str) -> dict[str, object]:
    told = json.loads(state.read_text("utf-8"))
    if method == "initialize":
        return {"capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"}}
    if method == "tools/list":
        words, schema = "x" * told.get("chars", 0) or told["description"], {"type": "object"}
        large = {
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(told.get("properties", 0))},
        }
        tools = [
            {"name": "speak", "description": words, "inputSchema": schema},
            {"name": "large", "description": "large", "inputSchema": large},
        ]
        return {"tools": [tool for tool in tools if told.get("only") in (None, "", tool["name"])]}
    blocks = [{"type": "text", "text": "b" * told.get("block", 1)}] * told.get("blocks", 1)
    return {"content": blocks}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] not in ("initialize", "tools/list", "tools/call"):
        reply: dict[str, object] = {"error": {"code": -32601, "message": "no such method"}}
    else:
        result = answer(asked["method"])
        if asked["method"] == "initialize":
            result["protocolVersion"] = asked["params"]["protocolVersion"]
        reply = {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
