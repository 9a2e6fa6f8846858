"""The wires of model services, as a server sees them: what it complains about, how it writes answers and errors.

No sockets here: `fake_models.py` serves this. A wire a file; what the services refuse, with sources, is listed
in `fake_rules.py`.
"""

from crossclaw.domain.aliases import Json
from crossclaw.testing.fake_anthropic import AnthropicWire
from crossclaw.testing.fake_chat import ChatWire
from crossclaw.testing.fake_gemini import GeminiWire
from crossclaw.testing.fake_ollama import OllamaWire
from crossclaw.testing.fake_responses import ResponsesWire
from crossclaw.testing.fake_shapes import FakeTrouble, Reply, Wire

__all__ = ["WIRES", "FakeTrouble", "Json", "Reply", "Wire", "wire_at"]

WIRES: dict[str, Wire] = {
    wire.path: wire
    for wire in (AnthropicWire(), ChatWire(), ResponsesWire(), GeminiWire(), OllamaWire())
}


def wire_at(path: str, body: Json) -> Wire | None:
    """The wire that answers at a path. Google's has the model in it: it is put where the others have it."""
    plain = path.partition("?")[0]
    if plain.startswith("/v1beta/models/") and plain.endswith("ateContent"):
        body["model"] = plain.removeprefix("/v1beta/models/").partition(":")[0]
        return WIRES[GeminiWire.path]
    return WIRES.get(plain)
