"""The wires of model services, as a server sees them: what it complains about, how it writes answers and errors.

No sockets here: `fake_models.py` serves this. A wire a file; what the services refuse, with sources, is listed
in `fake_rules.py`.
"""

from crossclaw.testing.fake_anthropic import AnthropicWire
from crossclaw.testing.fake_chat import ChatWire
from crossclaw.testing.fake_responses import ResponsesWire
from crossclaw.testing.fake_shapes import Json, Reply, Trouble, Wire

__all__ = ["WIRES", "Json", "Reply", "Trouble", "Wire"]

WIRES: dict[str, Wire] = {
    wire.path: wire for wire in (AnthropicWire(), ChatWire(), ResponsesWire())
}
