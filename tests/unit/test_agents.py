"""Agent ids: one spelling each, safe in keys and paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.domain.agents import is_agent_id, normalize_agent_id, suggest_agent_id


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", "main"),
        (" Ops_2 ", "ops_2"),
        ("My Agent!", "my-agent"),
        ("--a--", "a"),
        ("", "main"),
        ("¡!", "main"),
        ("a" * 80, "a" * 64),
    ],
)
def test_an_agent_id_has_one_spelling(text: str, expected: str) -> None:
    assert normalize_agent_id(text) == expected


@pytest.mark.spec("K7")
@given(st.text())
def test_whatever_is_typed_becomes_an_id_that_stays_itself(text: str) -> None:
    once = normalize_agent_id(text)

    assert normalize_agent_id(once) == once
    assert is_agent_id(once)


def test_a_suggested_id_reads_like_what_was_typed() -> None:
    said = {
        "ünï": "uni",
        "Straße 5": "strasse-5",
        "Café-": "cafe",
        "агент": None,
        "é" * 80: "e" * 64,
    }
    assert {text: suggest_agent_id(text) for text in said} == said
    assert all(is_agent_id(each) for each in said.values() if each)
