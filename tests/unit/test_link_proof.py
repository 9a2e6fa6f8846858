"""Gateways that share a ledger prove to each other that they have its secret, and show it to nobody."""

import pytest

from crossclaw.domain.secret import Secret
from crossclaw.gateway.link_proof import LIFE_MS, LinkKey

OURS, OTHERS = LinkKey(Secret("a-long-secret-of-all-gateways")), LinkKey(Secret("another-secret"))
NOW = 1_794_800_000_000


def test_whoever_has_the_secret_answers_and_neither_side_has_shown_it() -> None:
    ticket = OURS.ticket("b", NOW)

    assert OURS.answer("b", ticket.text, NOW) == ticket.answer
    assert OURS.secret.reveal() not in ticket.text + ticket.answer
    assert OURS.ticket("b", NOW) != ticket, "each is for one request"


def test_a_ticket_opens_one_gateway_for_a_moment_and_nothing_else_does() -> None:
    ticket = OURS.ticket("b", NOW)

    assert OURS.answer("c", ticket.text, NOW) is None
    assert OTHERS.answer("b", ticket.text, NOW) is None
    assert OURS.answer("b", ticket.text, NOW + LIFE_MS) is not None
    assert OURS.answer("b", ticket.text, NOW + LIFE_MS + 1) is None
    assert OURS.answer("b", ticket.text, NOW - LIFE_MS - 1) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "link",
        "link.1.2",
        "link..n.m",
        "link.-1.n.m",
        "link.١.n.m",
        "a.1.n.\ud800",
        "link.9.é.é",
    ],
)
def test_what_is_no_ticket_is_none(text: str) -> None:
    assert OURS.answer("b", text, 1) is None
