"""How a repeated request is recognised is stored: a release that writes it otherwise refuses what was sent before it."""

import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.operations import Dedupe
from crossclaw.sessions.arrivals import RequestId

WORK = SessionKey.parse("agent:main:work")


@pytest.mark.parametrize(
    ("request_id", "stored"),
    [
        (
            RequestId(id="k", words=("chat", "hi")),
            Dedupe("run", "k", "844f861d8488c3993909f4f84fbc948a88295a7e6779b3a541a112e07fbaae7a"),
        ),
        (
            RequestId(id="k", words=("spawn", "agent:main:main", '["main","work"]'), of_session=False),
            Dedupe("run", "k", "135891851b3808e70ac4e9fdeae588671e9065d65edee66c76576aa0c3466015"),
        ),
        (RequestId(id="m1", scope="inbound", of_session=False), Dedupe("inbound", "m1", "")),
    ],
    ids=["of a session", "of no session", "of a platform"],
)  # fmt: skip
def test_a_request_is_stored_as_it_has_always_been(request_id: RequestId, stored: Dedupe) -> None:
    assert request_id.dedupe(WORK) == stored
