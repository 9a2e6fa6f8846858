"""How many pictures and files a message brings along, on every way in."""

import base64

import msgspec
import pytest

from crossclaw.domain.attachments import COUNT_MAX, NAME_CHARS_MAX
from crossclaw.door.registry import Params
from crossclaw.gateway.methods.chat import ChatSendParams
from crossclaw.gateway.methods.clients import SessionsSendParams
from crossclaw.gateway.methods.runs import AgentCallParams

HI = {"content": base64.b64encode(b"hi").decode(), "fileName": "n" * NAME_CHARS_MAX}
ASKED = {
    ChatSendParams: {"sessionKey": "main", "message": "look", "idempotencyKey": "1"},
    SessionsSendParams: {"message": "look", "key": "main"},
    AgentCallParams: {"message": "look", "idempotencyKey": "1"},
}


@pytest.mark.parametrize("kind", ASKED)
def test_a_message_brings_so_many_attachments_with_short_names_and_no_more(
    kind: type[Params],
) -> None:
    """Thirty thousand small ones fit into a frame, and took the store and their session for many seconds."""
    msgspec.convert(ASKED[kind] | {"attachments": [HI] * COUNT_MAX}, kind)
    for many in ([HI] * (COUNT_MAX + 1), [HI | {"fileName": "n" * (NAME_CHARS_MAX + 1)}]):
        with pytest.raises(msgspec.ValidationError, match="length <="):
            msgspec.convert(ASKED[kind] | {"attachments": many}, kind)
